"""Files are replaced as a whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorir.replaced_file import replaced_file


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text("old")
    with replaced_file(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_the_old_file_stays_when_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text("old")
    lines = (b"%d" % (1 // n) for n in (1, 0))
    with pytest.raises(ZeroDivisionError), replaced_file(path) as file:
        file.writelines(lines)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    with replaced_file(path) as first, replaced_file(path) as second:
        first.write(b"a" * 10)
        second.write(b"b" * 4)
    assert path.read_text() == "a" * 10, "which was the last one to end"


def test_permissions_are_those_of_the_old_file_or_of_any_new_one(tmp_path: Path) -> None:
    path, plain = tmp_path / "log.json", tmp_path / "plain"
    plain.touch()
    with replaced_file(path):
        pass
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    with replaced_file(path):
        pass
    assert path.stat().st_mode & 0o777 == 0o640


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "log.json"
    with pytest.raises(FileNotFoundError) as caught, replaced_file(path):
        pass
    assert caught.value.filename == str(path)
