"""The file of a model that is being served, replaced by whatever."""

import os
import sys
import threading

import pytest

from lorank.serving.served import Served


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_pipe_in_the_place_of_the_model_is_not_waited_for(model, path):
    """Nobody writes to it: the server would never look at the file again."""
    served = Served(path)
    first = served.model
    path.unlink()
    os.mkfifo(path)
    looks = threading.Thread(target=served.refresh, daemon=True)
    looks.start()
    looks.join(20)
    assert not looks.is_alive()
    assert served.model is first
    path.unlink()
    assert served.refresh() is None
    model.save(path)
    assert served.refresh() is True
    assert served.model is not first
    path.write_bytes(b"no model")
    assert served.refresh() is False
    assert served.refresh() is None
