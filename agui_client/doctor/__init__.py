"""The doctor: probes a server with a handful of short runs, and says what it can do, and which rules it breaks.

    diagnosis = await diagnose("http://localhost:8000/")
    print(diagnosis)

The modules, from low to high: `_diagnosis` (the result), `_files` (as HTML and JUnit), `_exchanges` (requests
with the bytes of their responses), `_evidence`, `_judging` (what any run may show), `_probes`, `_examination`.
"""

from agui_client.doctor._diagnosis import Ability, Diagnosis, Evidence, Finding, ProbeResult
from agui_client.doctor._examination import diagnose
from agui_client.doctor._files import as_html, as_junit

__all__ = ["Ability", "Diagnosis", "Evidence", "Finding", "ProbeResult", "as_html", "as_junit", "diagnose"]
