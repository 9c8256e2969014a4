"""The clock of a cell: what it worked counts, what it waited does not."""

import time

from lorank.experiments.run_cell import _timed


def test_waiting_does_not_count_and_work_does():
    def work() -> str:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        time.sleep(0.2)
        return "done"

    answer, seconds, share = _timed(work)
    assert answer == "done"
    assert 0.19 < share * seconds < 0.25 < 0.4 <= seconds + 0.01
