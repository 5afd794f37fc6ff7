// SPDX-License-Identifier: MIT
// What kind of program a command ran, by the names in it.

// What comes first says most of a command that ran several.
export const KINDS = [
	['analysis', 'Python, R and the like', 'python ipython jupyter rscript r julia octave matlab perl ruby node deno java scala ghc lua stata sas duckdb sqlite3 psql papermill quarto'],
	['build', 'Build and workflows', 'make cmake meson ninja cargo gcc g++ clang clang++ cc c++ go javac mvn gradle npm yarn pip conda mamba uv apt apt-get snakemake nextflow cwltool sbatch srun docker podman latexmk pdflatex xelatex lualatex pandoc'],
	['history', 'Version control', 'git hg svn jj dvc datalad git-annex gh'],
	['network', 'Network', 'curl wget ssh scp sftp rsync rclone aws gsutil s3cmd ftp aria2c'],
	['edit', 'Editors', 'vi vim nvim nano emacs ed helix hx micro code kak joe mcedit gedit kate'],
	['text', 'Text tools', 'sed awk gawk mawk grep egrep rg sort uniq cut paste join tr head tail wc tee split csplit comm diff patch jq yq xsv csvkit column fmt fold nl shuf iconv gzip gunzip zcat xz bzip2 zstd tar zip unzip'],
	['files', 'Files and shell', 'for case select done fi esac [ [[ sh bash zsh dash fish ksh cp mv rm mkdir rmdir ln touch chmod chown ls cat echo printf cd pwd find test true false source . export set truncate dd install mktemp less more file stat du df seq yes sleep'],
	['other', 'Other programs', ''],
];

const OTHER = KINDS.length - 1;
const kindOfName = new Map(KINDS.flatMap(([, , names], kind) => names.split(' ').filter(Boolean).map((name) => [name, kind])));
const BEFORE = /^(?:sudo|doas|env|time|nice|ionice|nohup|exec|command|builtin|stdbuf|timeout|xargs|then|do|else|if|while|!|\{|\()$/;

// The name of the program of a part of a command.
function programOf(part) {
	const words = part.trim().split(/\s+/);
	let at = 0;

	while (at < words.length && (BEFORE.test(words[at]) || /^\w+=/.test(words[at]) || (at && /^[-\d]/.test(words[at])))) at++;
	return (words[at] ?? '')
		.replace(/^["'(]+|["')]+$/g, '')
		.replace(/^.*\//, '')
		.toLowerCase();
}

export function kindOf(title) {
	const kinds = title.split(/\|\|?|&&?|;|\\n|\n|\$\(/).map((part) => {
		const name = programOf(part);

		return name ? (kindOfName.get(name) ?? kindOfName.get(name.replace(/[\d.]+$/, '')) ?? OTHER) : KINDS.length;
	});
	const known = Math.min(...kinds.filter((kind) => kind < OTHER - 1));

	// a program that is not known says more than echo or cd beside it
	return known < OTHER ? known : kinds.includes(OTHER) ? OTHER : kinds.includes(OTHER - 1) ? OTHER - 1 : OTHER;
}
