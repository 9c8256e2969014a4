"""`lorank serve`: a model behind HTTP."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from lorank.cli.options import ModelArgument, TitlesOption
from lorank.cli.recommend import titled
from lorank.cli.terminal import say


def serve(
    model: ModelArgument,
    host: Annotated[
        str, typer.Option(help="Address to listen at; the default can be reached from this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen at.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Number of processes.")] = 1,
    token: Annotated[
        str | None,
        typer.Option(envvar="LORANK_TOKEN", help="What whoever asks must show; made up where other machines can ask."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", help="Further name by which the server may be called; may be given several times."
        ),
    ] = None,
    titles: TitlesOption = None,
    max_body: Annotated[int, typer.Option(min=1000, help="Largest request in bytes.")] = 1 << 20,
    max_batch: Annotated[int, typer.Option(min=1, help="Most rows, columns or pairs in one request.")] = 10_000,
    max_seconds: Annotated[float, typer.Option(min=0.1, help="Longest time for one request.")] = 30.0,
) -> None:
    """Answer questions about a model over HTTP: predictions, lists, similar columns, new rows; and show its page.

    When the model's file changes, the new model takes the place of the old one without losing a request.

    Example: lorank serve model.lorank, then
    curl -H 'Content-Type: application/json' -d '{"rows": ["user-0042"], "n": 5}' http://127.0.0.1:8000/v1/recommend
    """
    from lorank.models import load
    from lorank.serving.app import Service
    from lorank.serving.questions import Limits
    from lorank.serving.server import is_loopback, secured
    from lorank.serving.server import serve as run

    titled(load(model), titles)  # what is wrong with the files is said here, once, and not by each worker
    limits = Limits(body=max_body, batch=max_batch, seconds=max_seconds)
    table = None if titles is None else str(titles.resolve())
    service = secured(Service(str(model), token, tuple(allow_host or ()), limits, titles=table), host)
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    shown = f"/?token={service.token}" if service.token else "/"
    say(f"Serving {model.name} at {address}{shown} ({workers} process{'es' * (workers > 1)}); Ctrl-C ends it.")
    if not is_loopback(host):
        say("Other machines can reach it; what they send is not encrypted unless a proxy in front of it does that.")
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and callable(signal.getsignal(hangup)):  # an interrupt is for commands; this ends a server
        signal.signal(hangup, lambda *about: signal.raise_signal(signal.SIGTERM))
    run(service, host, port, workers)
