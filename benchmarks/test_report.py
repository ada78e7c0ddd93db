# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of report.py, goals.py and compare.py, on made-up numbers."""
from __future__ import annotations

import unittest

import board
import compare
from report import Measured, case_title, format_us, render, verdict


def batch(hvd: list[float], slots: list[float], mpi: list[float], case: str = "allreduce/65536", steady: bool = True) -> dict:
    return {"steady": steady, "results": {"hvd": {case: hvd}, "slots": {case: slots}, "open_mpi": {case: mpi}}}


class MeasuredTest(unittest.TestCase):
    def test_best_of_a_batch_and_of_all(self) -> None:
        measured = Measured(2, [batch([9.0, 8.0], [4.0], [20.0]), batch([7.0, 12.0], [5.0], [20.0])])
        self.assertEqual(measured.per_batch("hvd", "allreduce/65536"), [8.0, 7.0])
        self.assertEqual(measured.best("hvd", "allreduce/65536"), 7.0)

    def test_ratios_are_taken_within_batches(self) -> None:
        batches = [batch([8.0], [4.0], [20.0]), batch([30.0], [10.0], [20.0]), batch([4.0], [4.0], [20.0])]
        self.assertEqual(Measured(2, batches).ratio("hvd", "slots", "allreduce/65536"), 2.0)

    def test_unsteady_batches_are_dropped_unless_all_are(self) -> None:
        good, bad = batch([8.0], [4.0], [20.0]), batch([1.0], [4.0], [20.0], steady=False)
        self.assertEqual(Measured(2, [good, bad]).best("hvd", "allreduce/65536"), 8.0)
        only_bad = Measured(2, [bad])
        self.assertTrue(only_bad.all_unsteady)
        self.assertEqual(only_bad.best("hvd", "allreduce/65536"), 1.0)

    def test_goals_beside_a_yardstick(self) -> None:
        met = Measured(2, [batch([7.0], [4.0], [12.0])]).verdicts("hvd", "allreduce/65536")
        self.assertEqual(met, ["≤ 1.3 S + 2 µs: met", "≤ 0.6 Open MPI: met"])
        missed = Measured(2, [batch([14.4], [4.0], [12.0])]).verdicts("hvd", "allreduce/65536")
        self.assertEqual(missed, ["≤ 1.3 S + 2 µs: missed (2.00 ×)", "≤ 0.6 Open MPI: missed (2.00 ×)"])

    def test_a_goal_without_its_peer_is_not_called_met(self) -> None:
        alone = {"steady": True, "results": {"hvd": {"allreduce/65536": [1.0]}}}
        for text in Measured(2, [alone]).verdicts("hvd", "allreduce/65536"):
            self.assertTrue(text.endswith("not measured"), text)

    def test_goals_belong_to_a_world_size(self) -> None:
        case = "allreduce/8"
        self.assertEqual(Measured(2, [batch([4.0], [1.0], [1.0], case)]).verdicts("hvd", case), ["≤ 3 µs: missed (1.33 ×)"])
        self.assertEqual(Measured(4, [batch([4.0], [1.0], [1.0], case)]).verdicts("hvd", case), [])


class TextTest(unittest.TestCase):
    def test_titles_and_numbers(self) -> None:
        self.assertEqual(case_title("allreduce/65536"), "allreduce 64 KB")
        self.assertEqual(case_title("allreduce/8"), "allreduce 8 B")
        self.assertEqual(case_title("set/resnet50"), "set resnet50")
        self.assertEqual(case_title("barrier"), "barrier")
        self.assertEqual([format_us(value) for value in (None, 0.25, 12.34, 1234.5)], ["–", "0.25", "12.3", "1,234"])

    def test_a_limit_of_zero(self) -> None:
        self.assertEqual(verdict("≤ 0 /s", 0.0, 0.0), "≤ 0 /s: met")
        self.assertEqual(verdict("≤ 0 /s", 5.0, 0.0), "≤ 0 /s: missed")

    def test_markdown_rows_have_as_many_cells_as_the_head(self) -> None:
        lines = render([["case", "µs", "goal"], ["a", "1", ""], ["b", "2", "met"]], markdown=True).splitlines()
        self.assertEqual({line.count("|") for line in lines}, {4})


class CompareTest(unittest.TestCase):
    def rows(self, old: list[dict], new: list[dict]) -> list[str]:
        rows, _ = compare.compare(Measured(2, old), Measured(2, new), band=0.10)
        return [row[-1] for row in rows[1:]]

    def test_slower_against_the_yardstick(self) -> None:
        self.assertEqual(self.rows([batch([8.0], [4.0], [9.0])], [batch([10.0], [4.0], [9.0])]), ["slower"])

    def test_a_slower_machine_is_not_a_slower_engine(self) -> None:
        self.assertEqual(self.rows([batch([8.0], [4.0], [9.0])], [batch([16.0], [8.0], [18.0])]), [""])

    def test_faster(self) -> None:
        self.assertEqual(self.rows([batch([8.0], [4.0], [9.0])], [batch([4.0], [4.0], [9.0])]), ["faster"])

    def test_scattered_batches_widen_the_band(self) -> None:
        old = [batch([8.0], [4.0], [9.0]), batch([12.0], [4.0], [9.0])]
        self.assertEqual(self.rows(old, [batch([13.0], [4.0], [9.0])]), [""])
        self.assertEqual(self.rows(old, [batch([18.0], [4.0], [9.0])]), ["slower"])


class SetTest(unittest.TestCase):
    def test_resnet50(self) -> None:
        sizes = board.resnet50_elements()
        self.assertEqual((len(sizes), sum(sizes)), (161, 25_557_032))


if __name__ == "__main__":
    unittest.main()
