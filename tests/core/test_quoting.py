"""Text of any kind stays text in each place that it is written into."""

from __future__ import annotations

import ast
import csv
import io
import shlex

from hypothesis import example, given, settings
from hypothesis import strategies as st

from driftline.core.quoting import (
    code,
    comment,
    fenced,
    identifier,
    is_identifier,
    markdown,
    one_line,
    one_word,
    shell,
    spreadsheet,
    string,
    visible,
)

PIECES = ("\n", "\r", "\x0b", "\u2028", '"', "'", '"""', "\\", "\x1b[2J", "\x9b31m", "<script>", "\u202e", "`", "|")
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=12).map("".join)


@given(texts)
def test_a_comment_is_one_line_of_nothing(text: str) -> None:
    assert ast.parse(f"x = 1\n# {comment(text)}\n").body[1:] == []
    assert ast.parse(f"x = 1  # {comment(text * 2000)}").body[1:] == []


@given(texts)
def test_a_string_gives_the_text_back(text: str) -> None:
    assert ast.literal_eval(string(text)) == text
    string(text).encode("utf-8")  # a file can hold it
    assert visible(string(text)) == string(text)


@given(texts)
def test_an_identifier_is_one(text: str) -> None:
    assert identifier(text).isidentifier()
    assert is_identifier(identifier(text)) and len(identifier(text)) <= 61
    assert not is_identifier(f"{text}\n") and not is_identifier("a.if") and not is_identifier("")


@given(texts)
def test_visible_text_has_nothing_that_a_terminal_obeys(text: str) -> None:
    assert all(char.isprintable() or char in "\n\t" or not char.isascii() for char in visible(text))
    assert not set(visible(text)) & set("\x1b\x9b\r\u202e\u2028\x07")
    assert visible(visible(text)) == visible(text)
    assert "\n" not in one_line(text)


@given(st.lists(texts, min_size=1, max_size=4))
@settings(max_examples=200)
def test_a_command_has_the_words_that_it_was_given(words: list[str]) -> None:
    assert shlex.split(shell(words)) == [one_word(word) for word in words]
    assert "\n" not in shell(words)


@given(texts)
@example("\\`<script>")
@example("\\](javascript:x)")
@example(">0")
@example("***")
@example("12) b")
def test_markdown_stays_text(text: str) -> None:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    (inline,) = [t for t in parser.parse(f"A {markdown(text)} and {code(text)} end.") if t.type == "inline"]
    assert not {child.type for child in inline.children or ()} & {"html_inline", "link_open", "image", "softbreak"}
    alone = parser.parse(markdown(text))
    assert {token.type for token in alone} <= {"paragraph_open", "inline", "paragraph_close"}, markdown(text)
    block = parser.parse(fenced(text, "python") + "\n\nafter")
    assert [token.type for token in block] == ["fence", "paragraph_open", "inline", "paragraph_close"]


@given(texts)
def test_no_cell_of_a_spreadsheet_is_a_formula(text: str) -> None:
    file = io.StringIO()
    csv.writer(file).writerow([spreadsheet(f"{start}{text}") for start in "=+-@"])
    (row,) = csv.reader(io.StringIO(file.getvalue(), newline=""))
    assert all(value.startswith("'") for value in row)


def test_plain_names_are_not_touched() -> None:
    for name in ("torch.relu", "inductor:freezing=true", "at (0,): expected nan, got 0.0", "naïve 名前"):
        assert visible(name) == comment(name) == str(markdown(name)) == name
    assert string("x") == '"x"' and string('a"b') == '"a\\"b"' and string("it's \\") == '"it\'s \\\\"'
    assert shell(["driftline", "replay", "tvm-1", "--store", "a b"]) == "driftline replay tvm-1 --store 'a b'"
