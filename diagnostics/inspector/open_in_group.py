"""What is open in one key group, as rows with the columns that a user sees."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from panekeeper.framework.core.inspection.arrivals import PARTITION_TIMES
from panekeeper.framework.core.inspection.kept_rows import KEPT_TIMES
from panekeeper.framework.core.inspection.open_work import open_work, schema_of
from panekeeper.framework.core.inspection.panes import TIMES
from panekeeper.framework.core.inspection.recorded import RecordedPort
from panekeeper.framework.core.job_spec import PORT, TIMESTAMP, WINDOW
from panekeeper.state.spark_files.read_state import Segments
from panekeeper.state.store import MemoryStore


@dataclass(frozen=True)
class OpenInGroup:
    """What is open in one key group, from its stored values. Picklable; sent to the workers."""

    port: RecordedPort
    has_ports: bool
    has_windows: bool
    by_partition: bool

    @property
    def schema(self) -> pa.Schema:
        """The columns, as the frame has them."""
        of_panes, keys = self.port.pane_time, len(self.port.log_keys)
        own = schema_of(self.port, by_partition=self.by_partition)
        times = {*PARTITION_TIMES} if self.port.is_arrival else {*TIMES, *KEPT_TIMES}
        fields = [pa.field(name, own.field(place).type) for place, name in enumerate(self.port.log_keys)]
        fields += [pa.field(PORT, pa.int32())] if self.has_ports else []
        fields += [pa.field(WINDOW, pa.string())] if self.has_windows else []
        for field in list(own)[keys:]:
            kind = TIMESTAMP if self.port.is_arrival or field.name == "next_clock" else of_panes
            fields.append(pa.field(field.name, kind if field.name in times else field.type))
        return pa.schema(fields)

    def rows(self, segments: Segments) -> pa.Table:
        """Return what is open."""
        table = open_work(self.port, MemoryStore.of(segments), by_partition=self.by_partition)
        columns, schema, keys = table.columns, self.schema, len(self.port.log_keys)
        more = [self.port.number] * self.has_ports + [self.port.window] * self.has_windows
        columns[keys:keys] = [pa.chunked_array([pa.array([value] * table.num_rows)]) for value in more]
        return pa.table([column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)
