import numpy as np
import pytest

from lmma_lab.attack import RecordStore, campaign, compile_forest
from lmma_lab.attack.records import KIND, Record, fingerprint, record_fault
from lmma_lab.store import Store

SETTINGS = {"sigma0": 0.2, "budget": 200, "high": 16.0}


@pytest.fixture(scope="module")
def compiled(forest):
    return compile_forest(forest)


def same(a, b):
    assert a.numbers() == b.numbers()
    assert np.array_equal(a.curve, b.curve)
    assert np.array_equal(a.adversarial, b.adversarial)


def attack(model, digits, rows, **options):
    rows = np.asarray(rows)
    X, y = digits.X_test[rows], digits.y_test[rows]
    return campaign(model.predict_proba, X, y, images=rows, **(SETTINGS | options))


@pytest.fixture(scope="module")
def reference(compiled, digits):
    return attack(compiled, digits, range(60))


def test_adversarials_are_confirmed_by_scikit_learn(reference, forest, digits):
    assert 0.2 < reference.success_rate < 1.0
    for record in reference.records:
        x0 = digits.X_test[record.image].astype(float)
        seen = forest.predict(record.adversarial[None])[0]
        assert (seen != digits.y_test[record.image]) == record.success
        assert seen == record.found
        if record.success:
            assert record.l2 == pytest.approx(np.linalg.norm(record.adversarial - x0), rel=1e-6)
            assert record.linf == pytest.approx(np.abs(record.adversarial - x0).max(), rel=1e-6)
            assert record.value == pytest.approx(-1 / record.l2)
            assert 0 < record.first_success <= record.queries


def test_curves_start_at_the_original_and_never_rise(reference, forest, digits):
    popsize, generations = 16, 13  # 4 + floor(3 ln 64) = 16 candidates; 200 queries need 13 generations
    for record in reference.records:
        p = np.sort(forest.predict_proba(digits.X_test[record.image][None])[0])
        assert record.curve[0] == record.start == pytest.approx(p[-1] - p[-2], abs=1e-11)
        assert (np.diff(record.curve) <= 0).all()
        assert record.curve[-1] == record.value
        assert record.queries == popsize * generations
        assert len(record.curve) == generations + 1


def test_images_the_classifier_gets_wrong_are_left_alone(reference, forest, digits):
    wrong = np.flatnonzero(forest.predict(digits.X_test[:60]) != digits.y_test[:60])
    assert reference.skipped == wrong.tolist()
    assert len(reference.skipped) + len(reference.records) == 60
    assert wrong.size


@pytest.mark.parametrize("options", [{"batch_size": 1}, {"batch_size": 7, "threads": 3}, {"threads": 2}])
def test_neighbours_order_and_threads_do_not_matter(reference, compiled, digits, options):
    rows = [41, 3, 17, 58, 20, 4]
    some = attack(compiled, digits, rows, **options)
    by_image = {record.image: record for record in reference.records}
    assert [record.image for record in some.records] == [i for i in sorted(rows) if i in by_image]
    for record in some.records:
        same(record, by_image[record.image])


def test_scikit_learn_itself_gives_the_same_records(reference, forest, digits):
    slow = attack(forest, digits, range(8))
    for record, other in zip(slow.records, reference.records, strict=False):
        same(record, other)


def test_seeds_and_images_lead_to_different_runs(reference, compiled, digits):
    other = attack(compiled, digits, range(60), seed=1)
    assert any(
        not np.array_equal(a.curve, b.curve) for a, b in zip(reference.records, other.records, strict=True)
    )
    twice = digits.X_test[[3, 3]], digits.y_test[[3, 3]]
    pair = campaign(compiled.predict_proba, *twice, images=[5, 6], **SETTINGS)
    assert not np.array_equal(pair.records[0].adversarial, pair.records[1].adversarial)


def test_clipped_and_rounded_adversarials_are_valid_images(compiled, forest, digits):
    result = attack(compiled, digits, range(40), clip=True, round=True)
    assert result.column("success").sum() > 5
    for record in result.records:
        assert record.adversarial.dtype == np.uint8
        assert record.adversarial.max() <= 16
        if record.success:
            assert forest.predict(record.adversarial[None])[0] != digits.y_test[record.image]
            difference = record.adversarial - digits.X_test[record.image].astype(float)
            assert record.l2 == np.linalg.norm(difference)


def test_targeted_attacks_reach_the_wanted_class(compiled, forest, digits):
    rows = np.flatnonzero((digits.y_test == 3) & (forest.predict(digits.X_test) == 3))[:20]
    result = attack(compiled, digits, rows, target=9, budget=800)
    assert result.column("success").sum() >= 2
    for record in result.records:
        if record.success:
            assert record.found == 9
            assert record.label == 3
            assert forest.predict(record.adversarial[None])[0] == 9
    assert attack(compiled, digits, rows, target=3).skipped == rows.tolist()


def test_stopping_at_success_spends_fewer_queries(reference, compiled, digits):
    short = attack(compiled, digits, range(60), stop_at_success=True)
    assert short.success_rate == reference.success_rate
    for a, b in zip(short.records, reference.records, strict=True):
        assert a.queries == (b.first_success or b.queries)
    assert short.column("queries").sum() < reference.column("queries").sum()


@pytest.mark.parametrize("method", ["ma-es", "csa-es"])
def test_other_methods_run_on_the_same_images(compiled, digits, method):
    result = attack(compiled, digits, range(20), method=method)
    assert len(result.records) > 15


def test_any_classifier_with_probabilities_will_do(digits):
    from sklearn.neighbors import KNeighborsClassifier

    model = KNeighborsClassifier(5).fit(digits.X_train, digits.y_train)
    result = attack(model, digits, range(6), sigma0=3.0)
    assert result.column("success").any()
    for record in result.records:
        if record.success:
            assert model.predict(record.adversarial[None])[0] != record.label


class Killed(Exception):
    pass


@pytest.mark.parametrize("threads", [1, 2])
def test_killed_and_resumed_equals_unbroken(reference, compiled, digits, tmp_path, threads):
    path, settings = tmp_path / "s.sqlite", {"seed": 0}
    seen = []

    def kill(record):
        seen.append(record.image)
        if len(seen) == 20:
            raise Killed

    with Store(path) as store:
        kept = RecordStore(store, settings)
        with pytest.raises(Killed):
            attack(compiled, digits, range(60), store=kept, observer=kill, batch_size=5, threads=threads)
    again = []
    with Store(path, record_fault) as store:
        kept = RecordStore(store, settings)
        resumed = attack(
            compiled, digits, range(60), store=kept, observer=lambda r: again.append(r.image), batch_size=9
        )
    assert len(again) < len(reference.records)
    assert not set(again) & set(seen)
    for a, b in zip(resumed.records, reference.records, strict=True):
        same(a, b)


def test_records_of_other_settings_are_not_picked_up(compiled, digits, tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        made = attack(compiled, digits, range(5), store=RecordStore(store, {"seed": 0})).column("image")
        assert RecordStore(store, {"seed": 0}).done(range(7)) == set(made) != set()
        other = RecordStore(store, {"seed": 1})
        assert other.records(range(5)) == []
        assert other.done(range(5)) == set()


def test_records_survive_the_way_through_the_store(reference, tmp_path):
    with Store(tmp_path / "s.sqlite", record_fault) as store:
        RecordStore(store, {}).put(reference.records)
        back = RecordStore(store, {}).records([r.image for r in reference.records])
    for a, b in zip(reference.records, back, strict=True):
        same(a, b)
        assert a.seconds == b.seconds > 0
        assert a.adversarial.dtype == b.adversarial.dtype


def test_a_record_that_is_not_its_own_is_set_aside(reference, tmp_path):
    mine, other = reference.records[:2]
    with Store(tmp_path / "s.sqlite", record_fault) as store:
        kept = RecordStore(store, {})
        kept.put([mine])
        content = store.records(KIND)[0]
        store.put("foreign", KIND, content)
        store.put(kept._key(other.image), KIND, content | {"spec": {"image": other.image}})
        store.put(kept._key(58), KIND, {"spec": {"image": 58}, "kind": KIND})
        assert [r.image for r in kept.records([mine.image, other.image, 58])] == [mine.image]
        assert len(store.records(KIND)) == 1
        assert {reason for _, reason in store.set_aside()} == {
            "its key does not match its spec", "it is not the record of an attack"

        }  # fmt: skip
    assert Record.from_json(content).image == mine.image


def test_fingerprints_tell_content_and_type_apart():
    a = np.arange(6)
    assert fingerprint(a, {"x": 1, "y": 2}) == fingerprint(a.copy(), {"y": 2, "x": 1})
    different = [a, a.reshape(2, 3), a.astype(np.int32), a + 1, "a", {"a": 1}]
    assert len({fingerprint(part) for part in different}) == len(different)


def test_arguments_that_make_no_sense_are_named(compiled, digits):
    X, y = digits.X_test[:4], digits.y_test[:4]
    predict = compiled.predict_proba
    for arguments, options, words in [
        ((compiled, X, y), {}, "pass model.predict_proba"),
        ((predict, X, y[:3]), {}, "one column number for each image"),
        ((predict, X, y + 0.5), {}, "one column number for each image"),
        ((predict, X, y + 10), {}, "columns 0 to 9"),
        ((predict, X, y), {"images": [1, 1, 2, 3]}, "one distinct number for each row of X"),
        ((predict, X, y), {"budget": 0}, "budget=0"),
        ((predict, X, y), {"seed": -1}, "seed=-1"),
        ((predict, X, y), {"batch_size": 0}, "batch_size=0"),
        ((predict, X, y), {"target": 10}, "columns 0 to 9"),
        ((predict, X, y), {"method": "lmmaes"}, "unknown method"),
        ((predict, X, y), {"low": 5.0, "high": 5.0}, "not below"),
        ((lambda rows: np.ones((4, 3)) / 3, X, 0 * y), {}, "rows of probabilities"),
    ]:
        with pytest.raises((ValueError, TypeError), match=words):
            campaign(*arguments, **options)
