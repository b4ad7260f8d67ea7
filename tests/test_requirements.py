"""The machinery that ties requirements to tests, and the rule it holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.mutants import file_of, read_mutants, run_tests, trouble_in

from tests.requirements_plugin import (
    Row,
    is_whole,
    read_delivered,
    read_rows,
    shown_by,
    without_test,
)

HOUSE = Row("A-1", "one", ("house",))
BOTH = Row("A-2", "two", ("house", "windows"))
LATER = Row("A-3", "three", ("windows",))

SUITE = """
import pytest
from tests.requirements_plugin import is_whole, read_rows, shown_by, without_test

@pytest.mark.req("A-1", "A-2")
@pytest.mark.parametrize("case", [1, 2])
def test_both(case):
    pass

def test_all_rows_have_tests(request):
    if not is_whole(request.config):
        pytest.skip("a part of the suite")
    rows = read_rows(request.config.rootpath)
    missing = without_test(rows, ["house"], shown_by(request.session.items))
    assert not missing, "MISSING " + ", ".join(row.id for row in missing)
"""


@pytest.fixture
def suite(
    pytester: pytest.Pytester, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """A small project with three rows, two of them delivered."""
    monkeypatch.setenv("PYTHONPATH", str(pytestconfig.rootpath))
    pytester.makefile(
        ".toml",
        pyproject="""
            [tool.windlass]
            delivered = ["house"]
            [tool.pytest.ini_options]
            testpaths = ["checks"]
            addopts = "-p tests.requirements_plugin -p no:cacheprovider -p no:asyncio"
            markers = ["req(*ids): rows"]
        """,
    )
    design = pytester.mkdir("design")
    (design / "requirements.tsv").write_text(
        "id\ttext\tpart\nA-1\tone\thouse\nA-2\ttwo\thouse, windows\nA-3\tthree\twindows\n",
        encoding="utf-8",
    )
    write(pytester, SUITE)
    return pytester


def write(pytester: pytest.Pytester, text: str) -> None:
    folder = pytester.path / "checks"
    folder.mkdir(exist_ok=True)
    (folder / "test_inner.py").write_text(text, encoding="utf-8")


class TestTheRule:
    def test_every_row_of_a_delivered_part_is_shown_by_a_test(
        self, request: pytest.FixtureRequest
    ) -> None:
        if not is_whole(request.config):
            pytest.skip("only a part of the suite was collected")
        root = request.config.rootpath
        missing = without_test(
            read_rows(root), read_delivered(root), shown_by(request.session.items)
        )
        listed = "\n".join(f"{row.id}: {row.text}" for row in missing)
        assert not missing, f"{len(missing)} rows of delivered parts have no test:\n{listed}"


class TestRows:
    def test_all_320_stand_in_the_file_once(self, request: pytest.FixtureRequest) -> None:
        rows = read_rows(request.config.rootpath)
        assert len(rows) == len({row.id for row in rows}) == 320
        assert all(row.id and row.text and all(row.parts) for row in rows)

    def test_the_delivered_parts_are_parts_of_rows(self, request: pytest.FixtureRequest) -> None:
        root = request.config.rootpath
        parts = {part for row in read_rows(root) for part in row.parts}
        assert set(read_delivered(root)) <= parts

    def test_a_row_under_two_parts_counts_for_each(self) -> None:
        rows = (HOUSE, BOTH, LATER)
        assert without_test(rows, ["house"], {"A-1": ["t"]}) == [BOTH]
        assert without_test(rows, ["windows"], {}) == [BOTH, LATER]
        assert without_test(rows, ["house"], {"A-1": ["t"], "A-2": ["t"]}) == []


class TestASuite:
    def test_passes_when_every_delivered_row_has_a_test(self, suite: pytest.Pytester) -> None:
        suite.runpytest_inprocess().assert_outcomes(passed=3)

    def test_fails_when_one_has_none(self, suite: pytest.Pytester) -> None:
        write(suite, SUITE.replace('"A-1", "A-2"', '"A-1"'))
        result = suite.runpytest_inprocess()
        result.assert_outcomes(passed=2, failed=1)
        result.stdout.fnmatch_lines(["*MISSING A-2*"])

    def test_fails_under_xdist_too(self, suite: pytest.Pytester) -> None:
        write(suite, SUITE.replace('"A-1", "A-2"', '"A-1"'))
        result = suite.runpytest_subprocess("-n", "2")
        result.assert_outcomes(passed=2, failed=1)
        result.stdout.fnmatch_lines(["*MISSING A-2*"])

    @pytest.mark.parametrize(
        "choice",
        [
            ["checks/test_inner.py"],
            ["-k", "test"],
            ["-m", "not slow"],
            ["--ignore", "checks/other"],
            ["checks/test_inner.py::test_all_rows_have_tests"],
        ],
        ids=["a file", "-k", "-m", "--ignore", "one test"],
    )
    def test_does_not_judge_a_part_of_itself(
        self, suite: pytest.Pytester, choice: list[str]
    ) -> None:
        write(suite, SUITE.replace('"A-1", "A-2"', '"A-1"'))
        outcomes = suite.runpytest_inprocess(*choice).parseoutcomes()
        assert outcomes["skipped"] == 1
        assert "failed" not in outcomes

    @pytest.mark.parametrize("how", [["checks"], ["."]])
    def test_judges_itself_when_its_folder_is_named(
        self, suite: pytest.Pytester, how: list[str]
    ) -> None:
        write(suite, SUITE.replace('"A-1", "A-2"', '"A-1"'))
        suite.runpytest_inprocess(*how).assert_outcomes(passed=2, failed=1)

    @pytest.mark.parametrize(
        ("mark", "says"),
        [
            ('"A-1", "A-22"', "*test_both*'A-22' is no row*did you mean 'A-2'?*"),
            ("", "*test_both*req takes one or more ids*"),
            ('id="A-1"', "*test_both*req takes one or more ids*"),
        ],
    )
    def test_stops_at_a_wrong_mark(self, suite: pytest.Pytester, mark: str, says: str) -> None:
        write(suite, SUITE.replace('"A-1", "A-2"', mark))
        result = suite.runpytest_inprocess()
        assert result.ret == pytest.ExitCode.INTERRUPTED
        result.stdout.fnmatch_lines([says])

    def test_stops_at_a_wrong_mark_under_xdist_too(self, suite: pytest.Pytester) -> None:
        write(suite, SUITE.replace('"A-1", "A-2"', '"A-22"'))
        result = suite.runpytest_subprocess("-n", "1")
        assert result.ret not in (pytest.ExitCode.OK, pytest.ExitCode.INTERNAL_ERROR)
        result.stdout.fnmatch_lines(["*test_both*'A-22' is no row*"])


class TestNetwork:
    @pytest.mark.parametrize("address", [("192.0.2.1", 80), ("2001:db8::1", 80, 0, 0)])
    def test_is_barred(self, address: tuple[object, ...]) -> None:
        import socket

        family = socket.AF_INET if len(address) == 2 else socket.AF_INET6
        with socket.socket(family) as connection, pytest.raises(RuntimeError, match="bar the net"):
            connection.connect(address)
        with pytest.raises(RuntimeError, match="bar the network"):
            socket.getaddrinfo("example.invalid", 80)

    def test_leaves_the_machine_itself_open(self) -> None:
        import socket

        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname()).close()
        one, other = socket.socketpair()
        one.close()
        other.close()


def test_no_setting_of_the_caller_reaches_a_test() -> None:
    import os

    assert not [name for name in os.environ if name.endswith("_API_KEY")]
    assert {name for name in os.environ if name.startswith("WINDLASS_")} <= {"WINDLASS_DATA"}


def test_each_mutant_breaks_one_place() -> None:
    for mutant in read_mutants():
        assert file_of(mutant).suffix == ".py"


ENDINGS = """
import asyncio, pytest, subprocess, sys, time

@pytest.mark.timeout(0.5)
def test_hangs():
    time.sleep(30)

def test_waits_in_vain():
    asyncio.run(asyncio.wait_for(asyncio.sleep(30), 0.1))

def test_waits_for_a_process():
    subprocess.run([sys.executable, "-c", "import time; time.sleep(30)"], timeout=0.1)

def test_sees_it():
    assert "Timeout" == "of something else"

def test_passes():
    pass
"""


@pytest.mark.parametrize(
    ("test", "trouble"),
    [
        ("test_hangs", "ran out of time"),
        ("test_waits_in_vain", "ran out of time"),
        ("test_waits_for_a_process", "ran out of time"),
        ("test_sees_it", ""),
        ("test_passes", "pass all the same"),
        ("test_missing", "did not run"),
    ],
)
def test_a_mutant_is_noticed_by_a_test_that_fails_and_not_by_one_that_hangs(
    tmp_path: Path, test: str, trouble: str
) -> None:
    profile = "from hypothesis import settings\nsettings.register_profile('quick')\n"
    (tmp_path / "conftest.py").write_text(profile)
    (tmp_path / "test_endings.py").write_text(ENDINGS)
    told = trouble_in(run_tests(tmp_path, [f"test_endings.py::{test}"]), 1)
    assert trouble in told
    assert bool(trouble) == bool(told)
