"""The file of a model that is being served, replaced by whatever."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

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


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("name", ["SIGHUP", "SIGTERM", "SIGINT"])
def test_whatever_ends_a_server_ends_it_without_a_traceback(path, name, hangups_end):
    """A terminal that is closed sends SIGHUP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", "from lorank.cli import main; main()", "serve", str(path), "--port", str(port)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        answered = False
        while not answered and child.poll() is None:
            time.sleep(0.1)
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                answered = True
        child.send_signal(getattr(signal, name))
        _, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert answered
    assert "Traceback" not in err, err
