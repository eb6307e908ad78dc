"""Values and bytes that programs stumble over."""

from __future__ import annotations

from hypothesis import strategies as st

NUMBERS = (
    *"0 1 2 3 -1 -0 0.0 0.5 1.0 -0.5 1e-9 1e-320 1e400 -1e400 nan .nan inf -inf 1_000 0x10 1e5 ١".split(),
    *map(str, (2**31, 2**53 + 1, 2**63, -(2**63))),
    "9" * 400,
    "9" * 5000,
)

WORDS = (
    *("", " ", "a b", "[" * 400, "[" * 400 + "]" * 400, "{a:" * 400 + "1" + "}" * 400, "${" * 300 + "}" * 300),
    *("(" * 400, "'" * 400, "{_target_: os.system}", "{_target_: builtins.print, _args_: [1]}"),
    *"""null None true false True [] {} [1] [null] {a:1} [[]] ??? ~ ' " '' "" a,b 1,2 [a,b] choice(1,2) range(1,3)
    glob(*) interval(0,1) \\ $ auto cpu cuda:99 best last step-00000001 none a=b ${ } ${} ${a} ${seed} ${name} ${data}
    ${data.path} ${oc.env:HOME} ${oc.env:NO_SUCH,1} ${oc.decode:'1'} ${oc.create:{}} ${oc.select:seed}
    ${hydra:runtime.cwd} ${now:%Y} ${${name}} \\${seed} ${resume} ${data.cache} _target_
    !!python/object/apply:os.system""".split(),
)

PATHS = (
    *"""~no-such-user/x . .. / // /etc/passwd /dev/null /dev/zero /dev/stdin /proc/self/mem ~ ~nobody ../x x/../.. * **
    [ [! ? book.txt book.txt/ book.txt,book.txt , http:// https:// http://[ file:///etc/passwd ftp://127.0.0.1/x
    ./-x folder folder/* loop fifo - --help runs runs/none runs/gpt runs/translate""".split(),
    "a" * 300,
    "a/" * 2000,
)

SCRIPTS = (
    *("<script>alert(1)</script>", "\x1b[2J\x1b]0;x\x07", "é", "e\u0301", "a\u0300" * 50, "ﷺ" * 30, "注目", "😀"),
    *"\u202e\u2028\r\ufeff\udc80\x7f\x85\ufdd0\u2581\ufffe\U0010ffff",
    "\ufdd0x",
)

arguments = st.characters(exclude_characters="\0", codec="utf-8") | st.sampled_from([chr(0xDC80), chr(0xDCFF)])
"""Characters of a command-line argument: any but NUL; bytes that are not UTF-8 arrive as lone surrogates."""

texts = st.one_of(st.sampled_from((*NUMBERS, *WORDS, *PATHS, *SCRIPTS)), st.text(arguments, max_size=30))
"""Any value of a setting on a command line."""

NASTY_BYTES = (
    *(b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x85", b"\xe3\x81", b"\xed\xa0\x80", b"\xc0\x80"),
    *(b"\xf4\x90\x80\x80", b"\x1b[31m", b"\x1a", b"\x0c", b"\x0b", b"\0", b"\r", b"\r\n", b"\n", b"\t", b" "),
    *(b"\n" * 30, b"\t\t\t", b"word" * 300, b"<unk>", b"</s>", b"|||", b"{}", b"[]", b"null", b'"', b","),
    *map(str.encode, ("ﾊﾟ", "パ", "ハ\u309a", "\u3000", "\ufdd0\ufdd5\ufdd6", "\u2581", "猫" * 200)),
)

raw = st.lists(
    st.one_of(st.sampled_from(NASTY_BYTES), st.binary(max_size=12), st.text(max_size=12).map(str.encode)), max_size=12
)
raw = raw.map(b"".join)
"""Bytes that may or may not be text."""
