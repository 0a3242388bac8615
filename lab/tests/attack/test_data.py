import gzip
import struct
import tracemalloc

import numpy as np
import pytest

from lmma_lab.attack import load_digits, load_mnist
from lmma_lab.attack.data import cache_folder, read_idx, write_idx

NAMES = [
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
]  # fmt: skip


@pytest.fixture(params=["", ".gz"])
def folder(request, tmp_path):
    rng = np.random.default_rng(0)
    for name in NAMES:
        count = 30 if name.startswith("train") else 12
        images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = rng.integers(0, 10, count, dtype=np.uint8)
        write_idx(tmp_path / (name + request.param), images if "images" in name else labels)
    return tmp_path


def test_bundled_digits_need_nothing_and_never_change():
    data = load_digits()
    assert data.X_train.shape == (1198, 64)
    assert data.X_test.shape == (599, 64)
    assert data.X_train.max() == data.high == 16
    assert np.bincount(data.y_test).min() > 40


def test_idx_files_are_read_plain_or_compressed(folder):
    data = load_mnist(folder)
    assert data.X_train.shape == (30, 784)
    assert data.X_test.shape == (12, 784)
    assert data.y_test.shape == (12,)
    assert data.shape == (28, 28)


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("end", ["", ".gz"])
def test_idx_round_trip(tmp_path, shape, end):
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    write_idx(tmp_path / f"a{end}", array)
    assert np.array_equal(read_idx(tmp_path / f"a{end}"), array)


def test_the_cache_is_used_without_a_folder(folder, monkeypatch):
    monkeypatch.setenv("LMMA_DATA", str(folder))
    assert cache_folder() == folder
    (folder / "mnist").mkdir()
    for path in folder.glob("*ubyte*"):
        path.rename(folder / "mnist" / path.name)
    assert len(load_mnist().X_train) == 30
    assert len(load_mnist(download=True).X_train) == 30  # complete: nothing is fetched


def test_missing_files_and_folders_are_named(folder, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        load_mnist(tmp_path / "nowhere")
    next(folder.glob("t10k-labels*")).unlink()
    with pytest.raises(FileNotFoundError, match="neither t10k-labels-idx1-ubyte nor"):
        load_mnist(folder)
    monkeypatch.setenv("LMMA_DATA", str(tmp_path / "empty"))
    with pytest.raises(FileNotFoundError, match="allow the download"):
        load_mnist()


def test_damaged_files_are_named(folder):
    path = next(folder.glob("train-images*"))
    whole = path.read_bytes()
    plain = gzip.decompress(whole) if path.suffix else whole
    for content, words in [
        (whole[: len(whole) // 2], "damaged"),
        (plain[:-1], "its header declares 23520 bytes"),
        (plain[:9], "within its header"),
        (b"", "not an idx file"),
        (b"<html>", "not an idx file"),
        (b"\x1f\x8b" + bytes(20), "damaged"),
    ]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=words) as error:
            load_mnist(folder)
        assert path.name in str(error.value)


def test_files_that_do_not_belong_together_are_rejected(folder):
    path = next(folder.glob("train-labels*"))
    write_idx(path, np.zeros(29, np.uint8))
    with pytest.raises(ValueError, match="do not belong together"):
        load_mnist(folder)
    write_idx(path, np.zeros(30, np.uint8))
    write_idx(next(folder.glob("t10k-images*")), np.zeros((12, 8, 8), np.uint8))
    with pytest.raises(ValueError, match="differ in size"):
        load_mnist(folder)


@pytest.mark.parametrize(("shape", "words"), [
    ((200, 1000, 1000), "more follow"), ((2**32 - 1, 2**32 - 1, 9), "more than the limit of 1,073,741,824"),
    ((900, 1000, 1000), "fewer follow"),
])  # fmt: skip
def test_an_idx_file_that_unpacks_without_end_is_rejected_early(shape, words, tmp_path):

    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", 9) as file:
        file.write(
            struct.pack(">BBBBIII", 0, 0, 8, 3, *((3, 1000, 1000) if words == "more follow" else shape))
        )
        for _ in range(200):
            file.write(bytes(1 << 20))
    tracemalloc.start()
    with pytest.raises(ValueError, match=words):
        read_idx(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20e6
