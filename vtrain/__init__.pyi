from vtrain.backends import BackendSettings as BackendSettings
from vtrain.backends import JobBackend as JobBackend
from vtrain.backends import Plan as Plan
from vtrain.backends.registry import open_backend as open_backend
from vtrain.errors import VtrainError as VtrainError
from vtrain.library import Job as Job
from vtrain.library import follow as follow
from vtrain.library import get as get
from vtrain.library import submit as submit
from vtrain.messages.codec import from_document as from_document
from vtrain.messages.codec import read_message as read_message
from vtrain.messages.codec import to_document as to_document
from vtrain.messages.custom_job import CustomJob as CustomJob
from vtrain.messages.custom_job import CustomJobSpec as CustomJobSpec
from vtrain.messages.log import LogEntry as LogEntry
from vtrain.messages.log import LogQuery as LogQuery

__version__: str

def load_ipython_extension(shell: object) -> None: ...
