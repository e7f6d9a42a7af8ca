# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Energy runs as Parquet files. Needs pyarrow: pip install pyarrow.

    python -m emlio.energy_parquet STORE FILE [RUN] [--table samples|windows|energies]

The rows are those of `emlio energy export --format csv`, with types; what is not known is null.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, Literal

__all__ = ["export_parquet"]

Table = Literal["samples", "windows", "energies"]

TEXTS = (
    *("run", "node", "domain", "kind", "source", "device", "state", "window", "name", "stage"),
    *("domains", "missing", "without", "labels", "cause", "fix"),
)
NUMBERS = ("delta_j", "joules", "uncertainty_j", "seconds", "cpu_seconds", "gpu_seconds")
FLAGS = ("in_total",)
COUNTS = (
    *("epoch", "rank", "wall_ns", "monotonic_ns", "begin_ns", "end_ns", "begin_wall_ns"),
    *("energy_uj", "void_ns", "wraps", "resets", "gaps", "stalls", "ambiguous"),
    *("bytes_read", "bytes_sent", "bytes_delivered", "records_delivered"),
)


def export_parquet(
    store: str | Path,
    path: str | Path,
    run: str = "",
    *,
    table: Table = "samples",
    emlio: str | Path | None = None,
) -> int:
    """Writes a table of an energy run as a Parquet file, in memory that does not grow with it.

    Args:
        store: The file that runs are kept in.
        path: The file to write; it appears when it is complete.
        run: What the run's id begins with; empty for the latest run.
        table: `samples` (a row a tick and domain), `windows` or `energies`.
        emlio: The executable; the default is that of this installation, else the one on PATH.

    Returns:
        The number of rows.

    Raises:
        ImportError: pyarrow is missing.
        RuntimeError: `emlio energy export` failed; the message is its own.
    """
    try:
        from pyarrow import ArrowInvalid
        from pyarrow.parquet import ParquetWriter
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install pyarrow") from error

    command = [str(emlio or _executable()), "energy", "export", "--store", str(store)]
    command += ["--table", table, *(["--", run] if run else [])]
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    rows = 0
    with (
        tempfile.TemporaryFile() as messages,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=messages) as process,
    ):
        try:
            try:
                reader = _reader(process.stdout)
                with ParquetWriter(unfinished, reader.schema) as writer:
                    for batch in reader:
                        writer.write_batch(batch)
                        rows += batch.num_rows
            except ArrowInvalid:
                # Of an export that failed there is no table, or only its begin.
                if process.wait() == 0:
                    raise
            if process.wait() != 0:
                messages.seek(0)
                text = messages.read().decode(errors="replace").strip()
                raise RuntimeError(text.removeprefix("emlio: error: "))
            unfinished.replace(target)
        finally:
            process.kill()
            unfinished.unlink(missing_ok=True)
    return rows


def _reader(rows: Any) -> Any:
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, open_csv

    types = dict.fromkeys(TEXTS, pa.string())
    types |= dict.fromkeys(NUMBERS, pa.float64())
    types |= dict.fromkeys(FLAGS, pa.bool_())
    types |= dict.fromkeys(COUNTS, pa.int64())
    return open_csv(
        rows,
        read_options=ReadOptions(block_size=8 << 20),
        parse_options=ParseOptions(newlines_in_values=True),
        convert_options=ConvertOptions(column_types=types, strings_can_be_null=False),
    )


def _executable() -> str:
    beside = Path(sysconfig.get_path("scripts"), "emlio")
    found = str(beside) if beside.exists() else shutil.which("emlio")
    if found is None:
        raise FileNotFoundError("no executable emlio in this installation or on PATH")
    return found


def main() -> int:
    """The command line; see the module's text."""
    parser = argparse.ArgumentParser(
        prog="python -m emlio.energy_parquet",
        description="Write a table of an energy run as a Parquet file; needs pyarrow.",
    )
    parser.add_argument("store", type=Path, help="the file that runs are kept in")
    parser.add_argument("file", type=Path, help="the file to write")
    parser.add_argument("run", nargs="?", default="", help="what its id begins with [the latest]")
    parser.add_argument(
        "--table", choices=["samples", "windows", "energies"], default="samples", help="[samples]"
    )
    args = parser.parse_args()
    try:
        rows = export_parquet(args.store, args.file, args.run, table=args.table)
    except (ImportError, OSError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{rows:,} rows in {args.file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
