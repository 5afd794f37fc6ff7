# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Completion of shfs for bash. The candidates come from `shfs complete` (query/cmd/complete.c).

# Sets unquoted to $1 without its quotes; the last quote may not be closed.
_shfs_unquote()
{
	local rest=$1 quote='' char

	unquoted=
	if [[ $rest == \~/* ]]; then
		unquoted=$HOME rest=${rest:1}
	fi
	while [[ $rest ]]; do
		char=${rest:0:1} rest=${rest:1}
		if [[ $char == "$quote" ]]; then
			quote=
		elif [[ ! $quote && $char == [\'\"] ]]; then
			quote=$char
		elif [[ $char == \\ && (! $quote || $quote$rest == \"[\"\\\$\`]*) ]]; then
			unquoted+=${rest:0:1} rest=${rest:1}
		else
			unquoted+=$char
		fi
	done
}

# Sets words to the words up to the cursor, as typed. COMP_WORDS is also split at COMP_WORDBREAKS,
# such as "@" and "=": pieces without a blank between them are one word.
_shfs_words()
{
	local line=${COMP_LINE:0:COMP_POINT} rest i

	words=()
	for ((i = 0; i <= COMP_CWORD; i++)); do
		rest=${line#"${line%%[![:space:]]*}"}
		if ((i == 0)) || [[ $rest != "$line" || ! $rest ]]; then
			words+=('')
		fi
		words[-1]+=${COMP_WORDS[i]:0:${#rest}}
		line=${rest#"${COMP_WORDS[i]}"}
	done
}

# Adds names of files ($1 is -f) or directories (-d) to COMPREPLY.
_shfs_files()
{
	local names

	if ((${#COMPREPLY[@]} + ${#gone[@]} == 0)); then
		if [[ $1 == -d ]]; then compopt -o dirnames; else compopt -o default; fi
		return
	fi
	compopt -o filenames
	mapfile -t names < <(compgen "$1" -- "$current")
	names+=("${gone[@]}")
	COMPREPLY+=("${names[@]#"$standing"}")
}

# Adds names of files followed by "@", which -o filenames would quote. $1 is the text before the
# replaced part: maybe a quote.
_shfs_files_at()
{
	local name names

	compopt -o nospace
	mapfile -t names < <(compgen -f -- "$current")
	for name in "${names[@]}" "${gone[@]}"; do
		if [[ -d $name ]]; then name+=/; else name+=@; fi
		name=${name#"$standing"}
		if [[ ! $standing && $typed == \~/* ]]; then
			name=${name#"$HOME/"}
			[[ $1 == *[\'\"] ]] || printf -v name %q "$name"
			name='~'/$name
		elif [[ $1 != *[\'\"] ]]; then
			printf -v name %q "$name"
		fi
		COMPREPLY+=("$name")
	done
}

# Shows each candidate of a list with its meaning.
_shfs_meanings()
{
	local i width=0 text

	for text in "${COMPREPLY[@]}"; do
		((width >= ${#text})) || width=${#text}
	done
	for i in "${!meanings[@]}"; do
		[[ ${meanings[i]} ]] || continue
		printf -v text '%-*s  %s' "$width" "${COMPREPLY[i]}" "${meanings[i]}"
		COMPREPLY[i]=${text:0:${COLUMNS:-80}-2}
	done
}

# $2 is the part of the word that will be replaced.
_shfs()
{
	local words=() meanings=() lines=() gone=() line typed current standing unquoted i
	local behind='' files=''

	COMPREPLY=()
	_shfs_words
	typed=${words[-1]}
	for i in "${!words[@]}"; do
		_shfs_unquote "${words[i]}"
		words[i]=$unquoted
	done
	current=$unquoted
	_shfs_unquote "${typed%"$2"}"
	standing=$unquoted

	mapfile -t lines < <(shfs complete -- "${words[@]:1}" 2>/dev/null)
	for line in "${lines[@]}"; do
		case $line in
		':behind =') behind=${2%"${2#*=}"} current=${current#*=} standing='' ;;
		':behind @') behind=${2%"${2##*@}"} standing='' ;;
		':file '*) gone+=("${line#:file }") ;;
		:directories) files=-d ;;
		:files) files=-f ;;
		':files @') files=@ ;;
		*)
			line=$behind${line#"$standing"}
			COMPREPLY+=("${line%%$'\t'*}")
			meanings+=("${line#*$'\t'}")
			;;
		esac
	done
	case $files in
	-*) _shfs_files "$files" ;;
	@) _shfs_files_at "${typed%"$2"}" ;;
	esac
	if [[ ! $files ]] && ((COMP_TYPE == 63 && ${#COMPREPLY[@]} > 1)); then
		_shfs_meanings
	fi
}

complete -o nosort -F _shfs shfs
