"""Export a trained run for other programs or as a page: `python export.py run=runs/NAME to=FOLDER`.

`--help` lists every setting.
"""

from __future__ import annotations

import sys

from configs.program import check_system, importing, run_guarded

check_system()
with importing():
    from interop.settings import ExportSettings, export_help, parse_settings


def main() -> None:
    """Export the run that the command line names, or print the help."""
    arguments = sys.argv[1:]
    if {"--help", "-h"} & set(arguments):
        print(export_help())
        return
    settings = parse_settings(arguments)
    if settings.format == "page":
        export_page(settings)
    else:
        export(settings)


def export(settings: ExportSettings) -> None:
    """Load the run, write it to a new folder in the other program's format, and say how to use it. Raises UserError."""
    with importing():  # late, so that --help and errors need not wait a second for torch
        from configs.atomic_folder import check_new, whole_folder
        from configs.errors import UserError
        from configs.program import expanded
        from interop.formats import disk_errors, exporter
        from run import Run
        from training.run_folder.saved_config import named_runs

    # What is wrong is reported before anything is loaded.
    runs = named_runs(str(settings.run), settings.checkpoint)
    if len(runs) > 1:
        raise UserError(f"run={settings.run}: an ensemble is several models; export one run at a time")
    folder = expanded(str(settings.to))
    check_new(folder, "to")
    write = exporter(settings.format)

    run = Run(*runs[0])
    with whole_folder(folder) as partial, disk_errors():
        lines = write(run.trained, partial, settings)
    print(*lines, sep="\n")


def export_page(settings: ExportSettings) -> None:
    """Write the Attention tab with the models of some runs as one HTML file. Raises UserError."""
    with importing():
        from configs.atomic_folder import check_new
        from configs.program import expanded
        from page.export import write_page
        from training.run_folder.saved_config import named_runs

    to = expanded(str(settings.to))
    if not settings.overwrite:
        check_new(to, "to")
    for line in write_page(named_runs(str(settings.run), settings.checkpoint), to, settings):
        print(line)


if __name__ == "__main__":
    run_guarded(main)
