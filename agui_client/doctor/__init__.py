"""The doctor: probes a server with a handful of short runs, and says what it can do, and which rules it breaks.

    diagnosis = await diagnose("http://localhost:8000/")
    print(diagnosis)

The modules, from low to high: `diagnosis` (the result), `diagnosis_files` (as HTML and JUnit), `exchanges` (requests
with the bytes of their responses), `evidence`, `judging` (what any run may show), `probes`, `examination`.
"""

from agui_client.doctor.diagnosis import Ability, Diagnosis, Evidence, Finding, ProbeResult
from agui_client.doctor.diagnosis_files import as_html, as_junit
from agui_client.doctor.examination import diagnose

__all__ = ["Ability", "Diagnosis", "Evidence", "Finding", "ProbeResult", "as_html", "as_junit", "diagnose"]
