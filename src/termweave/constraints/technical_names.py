"""Names that programs know things by: paths, file names, command-line options, identifiers.

Their letters look like words, but a translated one names nothing any more. Ordinary text has strokes, dots, hyphens and
capitals too, so a name must show that it is one:

| kind       | kept                                               | left alone                                       |
|------------|----------------------------------------------------|--------------------------------------------------|
| path       | `/etc/hosts`, `~/notes`, `C:\\x`, `a/b.txt`, `*.txt` | and/or, 1/2, 18.11.2026, z.B., Hello.World       |
| option     | `--file=NAME`, `-o`                                | a dash - or -- two, Haupt- und, -5               |
| identifier | `file_name`, `os.file_name`, `fileName`            | Lehrer_innen, GmbH, URLs, a line to fill in ____ |

These are patterns without groups, for `protection`, whose rule they keep to: time proportional to the text.
"""

from __future__ import annotations

from termweave.text.stopwords import STOP_WORDS

# Letters of alphabets that put spaces between words. Chinese follows a name without one.
_ALPHABET = r"0-9A-Za-z\u00c0-\u024f\u0370-\u052f"
_WIDE = r"\u3000-\u30ff\u3400-\u9fff\uff00-\uffef"
_LETTER = rf"_{_ALPHABET}"
_END = rf"(?![{_LETTER}@])"
_REST = rf"(?:[^\s<>\"“”„«»|{{}}{_WIDE}]|\{{[^\s{{}}]{{0,100}}\}})*+"  # up to a space; {name}, but no half of it

# "done.then" is a lost space and no file. Abbreviations lose theirs most often: "ca.zwei".
_FUNCTION_WORDS = sorted(word for code in ("de", "en") for word in STOP_WORDS[code] if word.isalpha() and len(word) < 6)
_ABBREVIATIONS = (
    "abs|art|bzw|ca|dr|dt|etc|evtl|exkl|fig|ggf|inc|inkl|ltd|max|med|min|mind|mr|mrs|ms|no|nr|prof|resp|sog|st|str|tel|"
    "usw|vgl|vs"
)
_EXTENSION = rf"(?!(?:{'|'.join(_FUNCTION_WORDS)}){_END})[a-z][a-z0-9]{{1,4}}+|[cho]"
_LARGE_EXTENSION = "JPE?G|PNG|GIF|PDF|TXT|DOCX?|XLSX?|PPTX?|ZIP|CSV|XML|HTML?|EXE|DLL|BAT|MP[34]"
_EXTENDED = rf"\.(?:{_EXTENSION}|{_LARGE_EXTENSION}){_END}"
_PART = rf"[{_LETTER}-]{{1,100}}+"
_FILE = (
    rf"(?<![{_LETTER}./\\-])(?!\d++\.|(?i:{_ABBREVIATIONS})\.)"
    rf"(?:[{_LETTER}][{_LETTER}-]{{1,100}}+|\*)(?:[./]{_PART}){{0,20}}{_EXTENDED}"
)
_DRIVE = rf"(?<![{_LETTER}])[A-Za-z]:[\\/](?![\\/]){_REST}"
_SHARE = rf"(?<![{_LETTER}\\])\\\\[{_LETTER}]{_REST}"
_ROOTED = (  # not "/important/", which is how some stress a word
    rf"(?<![{_LETTER}./\\~<-])(?:(?:~|\.\.?)/(?=[{_LETTER}.]){_REST}"
    rf"|/[{_LETTER}.+-]{{1,100}}+/(?=[{_LETTER}.*%${{]){_REST}|/{_PART}(?:\.{_PART}){{0,5}}{_EXTENDED})"
)
PATH = f"{_DRIVE}|{_SHARE}|{_ROOTED}|{_FILE}"

_BEFORE_OPTION = r"(?<![^\s(\[{|,;:>\"'`“”„‚‘’«»])"
_VALUE = rf"=(?:\"[^\"\n]{{0,200}}+\"|'[^'\n]{{0,200}}+'|{_REST})"
OPTION = (
    rf"{_BEFORE_OPTION}(?:--[A-Za-z][0-9A-Za-z-]*+(?<!-)(?:{_VALUE})?|-[A-Za-z][0-9A-Za-z]*+{_VALUE}|-[A-Za-z]"
    rf"(?![{_LETTER}'’-]))"
)

# Some write German words for people of any gender so: Lehrer_innen, jede_r, LehrerInnen.
_GENDERED = rf"(?:[A-ZÄÖÜ][^\W\d_A-Z]*+_in(?:nen)?|jede_[rnsm]|k?ein_e){_END}"
_SNAKE = (
    rf"(?<![{_LETTER}.])(?=[{_LETTER}.]*[{_ALPHABET}]_{{1,2}}[{_ALPHABET}])(?!{_GENDERED})"
    rf"[{_LETTER}]++(?:\.[{_LETTER}]++)*+(?:\(\))?"
)
_HUMP = rf"(?!Innen{_END})[A-Z][a-z]{{2,60}}+"
_CAMEL = rf"(?<![{_LETTER}])(?:[a-z]{{2,60}}+|[A-Z][a-z]{{1,60}}+)(?:{_HUMP}){{1,10}}+{_END}(?:\(\))?"
IDENTIFIER = f"{_SNAKE}|{_CAMEL}"

# What a text holds none of has no such name: a stroke, ".a", "aA", "-a" or "--a" at the beginning of a word. A set
# comes first, for a pattern that begins with one is searched for fast.
HINT = r"[_/\\.A-Z-](?:(?<=[_/\\])|(?<=\.)[a-zA-Z]|(?<=[a-z][A-Z])|(?<=-)(?<!\w-)-?[A-Za-z])"
