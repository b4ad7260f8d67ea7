"""Files of the allowed folder: what is given, and what is refused."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from windlass.errors import ToolError
from windlass.tools.base import ToolContext
from windlass.tools.files import list_files, read_file, write_file

from .test_runner import PNG

ESCAPES = [
    "../secret.csv",
    "data/../../secret.csv",
    "/etc/passwd",
    "data/leak.csv",
]


class TestReading:
    def test_gives_the_text_as_it_is(self, context: ToolContext) -> None:
        assert read_file(context, "notes.md").text == "# Notes\n\none\ntwo\nthree\n"

    def test_takes_an_absolute_path_inside(self, context: ToolContext, root: Path) -> None:
        assert read_file(context, str(root / "notes.md")).text.startswith("# Notes")

    def test_gives_the_lines_asked_for(self, context: ToolContext) -> None:
        assert read_file(context, "notes.md", 3, 4).text == "one\ntwo\n(notes.md: lines 3-4 of 5)"
        assert read_file(context, "notes.md", 5, 99).text == "three\n(notes.md: lines 5-5 of 5)"
        with pytest.raises(ToolError, match="has lines 1 to 5, not 6 to the end"):
            read_file(context, "notes.md", 6)

    def test_shows_a_picture_as_a_picture(self, context: ToolContext, root: Path) -> None:
        (root / "dot.png").write_bytes(PNG)
        output = read_file(context, "dot.png")
        assert output.text == "picture dot.png, 2x3"
        assert output.pictures[0].data == PNG

    def test_refuses_what_is_neither(self, context: ToolContext, root: Path) -> None:
        (root / "thing.bin").write_bytes(bytes(range(256)))
        with pytest.raises(ToolError, match=r"'thing.bin' is neither text nor a picture"):
            read_file(context, "thing.bin")

    def test_replaces_invalid_utf8_and_says_so(self, context: ToolContext, root: Path) -> None:
        (root / "latin.txt").write_bytes(b"a caf\xe9 in the middle of the town\n")
        text = read_file(context, "latin.txt").text
        assert "caf\ufffd" in text
        assert "1 of 33 bytes were not valid UTF-8" in text

    def test_reads_utf16_and_drops_a_byte_order_mark(
        self, context: ToolContext, root: Path
    ) -> None:
        (root / "wide.txt").write_bytes("héllo".encode("utf-16"))
        (root / "bom.txt").write_bytes("héllo".encode("utf-8-sig"))
        assert read_file(context, "wide.txt").text == read_file(context, "bom.txt").text == "héllo"

    @pytest.mark.parametrize(
        ("path", "said"),
        [
            ("note.md", "did you mean 'notes.md'"),
            ("nowhere/x.md", "there is no folder 'nowhere'"),
            ("data", "is a folder: use list_files"),
            ("a\0b", "not a usable path"),
            ("x" * 5000, "not a usable path|there is no file"),
            ("\ud800", "not a usable path|there is no file"),
            ("pipe", "is not a regular file"),
        ],
    )
    def test_says_what_is_wrong_with_a_path(
        self, context: ToolContext, root: Path, path: str, said: str
    ) -> None:
        os.mkfifo(root / "pipe")
        with pytest.raises(ToolError, match=said):
            read_file(context, path)


class TestTheFence:
    @pytest.mark.parametrize("path", ESCAPES)
    def test_keeps_reading_and_writing_inside(self, context: ToolContext, path: str) -> None:
        with pytest.raises(ToolError, match="outside the allowed folder"):
            read_file(context, path)
        with pytest.raises(ToolError, match="outside the allowed folder"):
            write_file(context, path, "x")

    @pytest.mark.parametrize("folder", ["..", "/", "data/../.."])
    def test_keeps_listing_inside(self, context: ToolContext, folder: str) -> None:
        with pytest.raises(ToolError, match="outside the allowed folder"):
            list_files(context, folder)

    @pytest.mark.parametrize("pattern", ["../*", "*/../../*", "**/../../*", "/*"])
    def test_holds_for_patterns(self, context: ToolContext, pattern: str) -> None:
        assert "secret" not in list_files(context, ".", pattern)

    def test_holds_for_new_links(self, context: ToolContext, root: Path) -> None:
        (root / "out").symlink_to(root.parent)
        with pytest.raises(ToolError, match="outside"):
            write_file(context, "out/new.txt", "x")
        assert "out" not in list_files(context, ".")
        assert not (root.parent / "new.txt").exists()

    def test_holds_for_links_in_a_circle(self, context: ToolContext, root: Path) -> None:
        (root / "a").symlink_to(root / "b")
        (root / "b").symlink_to(root / "a")
        with pytest.raises(ToolError):
            read_file(context, "a")

    @pytest.mark.parametrize("path", [".env", ".git/config", "data/.hidden/x"])
    def test_leaves_hidden_files_alone(self, context: ToolContext, path: str) -> None:
        with pytest.raises(ToolError, match="is hidden"):
            read_file(context, path)
        with pytest.raises(ToolError, match="is hidden"):
            write_file(context, path, "x")
        assert ".env" not in list_files(context)

    def test_opens_readable_folders_for_reading_only(
        self, context: ToolContext, tmp_path: Path
    ) -> None:
        stored = tmp_path / ".windlass" / "storage" / "tool_results"
        stored.mkdir(parents=True)
        (stored / "ref.json").write_text("{}")
        (stored.parent / "other.json").write_text("no")
        wider = replace(context, readable=(stored,))
        path = str(stored / "ref.json")
        with pytest.raises(ToolError, match="outside"):
            read_file(context, path)
        assert read_file(wider, path).text == "{}"
        assert list_files(wider, str(stored)) == f"{path}  2"
        with pytest.raises(ToolError, match="outside"):
            read_file(wider, str(stored.parent / "other.json"))
        with pytest.raises(ToolError, match="outside"):
            write_file(wider, path, "x")


class TestListing:
    def test_names_files_with_sizes_and_folders(self, context: ToolContext) -> None:
        lines = list_files(context).splitlines()
        assert lines[:2] == ["data/", "notes.md  23"]
        assert lines[2].startswith("shop.sqlite  ")

    @pytest.mark.parametrize("pattern", ["**/*.csv", "data/*.csv", "data/*"])
    def test_looks_into_folders_where_the_pattern_does(
        self, context: ToolContext, pattern: str
    ) -> None:
        assert list_files(context, ".", pattern) == "data/sales.csv  84"

    def test_finds_files_at_the_top_with_a_deep_pattern(self, context: ToolContext) -> None:
        assert list_files(context, ".", "**/*.md") == "notes.md  23"

    def test_says_when_nothing_matches(self, context: ToolContext) -> None:
        assert list_files(context, "data", "*.png") == "no file in 'data' matches '*.png'"

    def test_of_very_many_is_cut_with_the_count(self, context: ToolContext, root: Path) -> None:
        (root / "many").mkdir()
        for n in range(600):
            (root / "many" / f"{n}.txt").touch()
        assert list_files(context, "many").endswith(
            "(600 files, the first 500 shown: give a narrower pattern)"
        )


class TestWriting:
    def test_makes_folders_and_says_what_it_did(self, context: ToolContext, root: Path) -> None:
        assert write_file(context, "out/report.md", "é\r\n") == "wrote out/report.md (4 bytes)"
        assert (root / "out" / "report.md").read_bytes() == "é\r\n".encode()
        assert write_file(context, "out/report.md", "") == "replaced out/report.md (0 bytes)"

    def test_survives_lone_surrogates(self, context: ToolContext, root: Path) -> None:
        write_file(context, "x.txt", "a\ud800")
        assert (root / "x.txt").read_text().startswith("a\ufffd")

    @pytest.mark.parametrize("path", [".", "data", ""])
    def test_refuses_a_folder(self, context: ToolContext, path: str) -> None:
        with pytest.raises(ToolError, match="folder"):
            write_file(context, path, "x")

    def test_says_why_it_cannot(self, context: ToolContext) -> None:
        with pytest.raises(ToolError, match=r"cannot write 'notes.md/x': "):
            write_file(context, "notes.md/x", "x")
