# SPDX-License-Identifier: MIT
"""Names and commands that are meant to harm whoever shows them, runs them, or asks for them: one
corpus for all tests. What is not UTF-8 is written as Python's surrogateescape does."""

import unicodedata

# a terminal: colours, titles, the clipboard, answers that it types, lines overwritten, 8-bit controls
TERMINAL = [
    "\x1b[31mred", "\x1b[2J\x1b[H", "\x1b]0;title\x07", "\x1b]52;c;cm0gLXJmIC8=\x07", "\x1b]52;c;?\x1b\\", "\x1b]8;;http://x\x1b\\y",
    "\x1b[6n", "\x1b[21t", "\x1bP$q\"p\x1b\\", "\x1b[?1049h", "\x1b[8m hidden", "\x1bc", "\x1b%G", "\x1b(0", "a\x1b[1K", "\x1b",
    "good\rbad", "a\b\bcc", "\x07", "\x7f", "\x0e\x0f", "\x05", "\x1f",
    "\x9b31m", "\x9d0;t\x9c", "\x90q\x9c", "\x85next", "\xad",
]  # fmt: skip

# what a reader sees in another order, or not
UNICODE = [
    "\u202egnp.exe", "a\u202ab\u202bc\u202cd\u202de", "\u2066x\u2067y\u2068z\u2069", "\u200e\u200f\u061c", "zero\u200bwidth\u200c\u200d",
    "\ufeffbom", "a\u2028b\u2029c", "\u2060join", "tag\U000e0041\U000e0042", "\ufff9x\ufffay\ufffb", "e\u0301", "\u00e9", "Z\u0336a\u0336l\u0336",
    "аdmin", "漢字", "\u3000wide", "\ufdd0", "\ue000private", "\U0010ffff",
]  # fmt: skip

# no UTF-8: a lone byte, an overlong slash and escape, a surrogate, beyond the end, cut off
BYTES = [
    "\udcff\udc80", "\udcc0\udcaf", "\udcc0\udc9b[31m", "\udced\udca0\udc80", "\udcf4\udc90\udc80\udc80", "\udce2\udc82", "caf\udce9", "\udc9b31m",
]  # fmt: skip

SHELL = [
    "$(touch pwned)", "`touch pwned`", "${IFS}", "$HOME", "~", "~root", "; touch pwned", "| touch pwned", "& touch pwned", "&& x", "> pwned",
    "< x", "it's", "'; touch pwned; '", 'a "b"', "a'\"$`\\", "back\\slash", "trail\\", "!bang", "!!", "^a^b", "star*", "que?", "[ab]", "{a,b}",
    "#hash", "a #b", "(par)", "$'\\x41'", "%1", "%s%n%d", "-rf", "--", "--help", "-", "-x", "-- x", "=ls", "a=b", "FOO=bar", "new\nline", "\n",
    "two  words", " lead", "trail ", "tab\tin", "\t", "...", "..x", "..\\x", ". .", ".hidden", ".git", "con", "x.", "semi;colon",
]  # fmt: skip

MARKUP = [
    "</script><script>alert(1)</script>", "<!--<script>", '"><img src=x onerror=alert(1)>', "'-alert(1)-'", "<svg onload=alert(1)>",
    "</title><svg onload=alert(1)>", "{{constructor.constructor('alert(1)')()}}", "javascript:alert(1)", "<a href=javascript:alert(1)>x",
    "<IMG SRC=&#106;avascript:alert(1)>", "<iframe srcdoc='<script>alert(1)</script>'>", "<body onload=alert(1)>", "<style>@import'x'</style>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>", "]]><x>", "<?xml version='1'?><!DOCTYPE x [<!ENTITY y 'z'>]>",
    "&lt;b&gt;&amp;", "\\u003cscript\\u003e", "<lt>", "`${alert(1)}`", "@DATA@ @CONTENTS@ @SCRIPT@", "</textarea><script>alert(1)</script>",
]  # fmt: skip

TABLES = [
    "=cmd|' /C calc'!A0", "=1+1", "+1+1", "-1+1", "@SUM(1)", "=HYPERLINK(\"http://x\",\"y\")", "a,b", 'a","b', "\r=1+1", "'=1",
]  # fmt: skip

SQL = [
    "'; DROP TABLE file;--", "' OR '1'='1", '" OR ""="', "%", "_", "%%", "\\%", "a'b", "?1", ":x", "UNION SELECT 1--", "/* x */", "x' GLOB '*", "[^a]",
]  # fmt: skip

WORKFLOW = [
    "$(shell touch pwned)", "$@", "$<", "a$$b", "per%cent", "col:on", "a|b", ".PHONY", "all", "END", "{input}", "{brace}", "{{x}}", "{wildcard}",
    "dollar$", "include x", "\\\\", "end\\\\\\",
]  # fmt: skip

# of steps that are run again, by what was exported; * is a file of three lines that each begins with a number
STEPS = [
    "two words", "it's", 'a "b"', "back\\slash", "new\nline", "dol$lar", "$(touch pwned)", "`touch pwned`",
    "per%cent", "%s%d", "-dash", "-n", "hash#tag", "semi;colon", "amp&ersand", "pi|pe", "a=b", "col:on",
    "star*", "que?", "[ab]", "{brace}", "{{x}}", "~", "~root", "tab\tin", "ünïcödé-文件", "\udcff\udc80", "\x1besc", "#",
    "a,b", "b@2", "END", "all", "(par)", "!bang", "<lt>", " lead", "trail ", "a'\"$`\\", ".hidden", "-- x",
]  # fmt: skip

# what a name of shfs can end in
VERSIONS = ["b@2", "b@{1}", "b@{now}", "b@", "@3x", "b@99999999999999999999", "4f2a91c"]

LONG = ["L" * 255, "é" * 127, "\x1b" * 255, "<" * 255]

TEXTS = list(dict.fromkeys([*TERMINAL, *UNICODE, *BYTES, *SHELL, *MARKUP, *TABLES, *SQL, *WORKFLOW, *STEPS, *VERSIONS]))

# a name has no slash, and is not only dots
NAMES = list(dict.fromkeys([*(text.replace("/", "∕") for text in TEXTS), *LONG]))


def encoded(text):
    return text.encode("utf-8", "surrogateescape")


def unprintable(data, tabs=False):
    """Of the bytes of an output, each character that a terminal would do something by, or that hides."""
    text = data.decode("utf-8", "surrogateescape")
    fine = "\n\t" if tabs else "\n"
    return sorted(c for c in set(text) if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in fine)
