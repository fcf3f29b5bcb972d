"""Tables of distributions: the imports that they provide, and the distributions that they depend on."""

from __future__ import annotations

from collections.abc import Iterable

from vtrain.project_names import canonical, distribution_name

# Import name (dotted where a namespace is shared) → distributions that bring it, the usual one first.
DISTRIBUTIONS: dict[str, tuple[str, ...]] = {
    "absl": ("absl-py",),
    "attr": ("attrs",),
    "bs4": ("beautifulsoup4",),
    "cairo": ("pycairo",),
    "Crypto": ("pycryptodome",),
    "cv2": ("opencv-python", "opencv-python-headless", "opencv-contrib-python"),
    "dateutil": ("python-dateutil",),
    "docx": ("python-docx",),
    "dotenv": ("python-dotenv",),
    "faiss": ("faiss-cpu", "faiss-gpu"),
    "fitz": ("pymupdf",),
    "git": ("gitpython",),
    "github": ("pygithub",),
    "google.api_core": ("google-api-core",),
    "google.auth": ("google-auth",),
    "google.cloud.aiplatform": ("google-cloud-aiplatform",),
    "google.cloud.bigquery": ("google-cloud-bigquery",),
    "google.cloud.bigquery_storage": ("google-cloud-bigquery-storage",),
    "google.cloud.bigtable": ("google-cloud-bigtable",),
    "google.cloud.firestore": ("google-cloud-firestore",),
    "google.cloud.logging": ("google-cloud-logging",),
    "google.cloud.monitoring_v3": ("google-cloud-monitoring",),
    "google.cloud.pubsub": ("google-cloud-pubsub",),
    "google.cloud.secretmanager": ("google-cloud-secret-manager",),
    "google.cloud.spanner": ("google-cloud-spanner",),
    "google.cloud.storage": ("google-cloud-storage",),
    "google.genai": ("google-genai",),
    "google.generativeai": ("google-generativeai",),
    "google.oauth2": ("google-auth",),
    "google.protobuf": ("protobuf",),
    "googleapiclient": ("google-api-python-client",),
    "grpc": ("grpcio",),
    "hydra": ("hydra-core",),
    "hypertune": ("cloudml-hypertune",),
    "igraph": ("igraph", "python-igraph"),
    "IPython": ("ipython",),
    "jose": ("python-jose",),
    "jwt": ("pyjwt",),
    "kfp": ("kfp",),
    "Levenshtein": ("levenshtein", "python-levenshtein"),
    "lightning": ("lightning", "pytorch-lightning"),
    "MySQLdb": ("mysqlclient",),
    "magic": ("python-magic",),
    "mpl_toolkits": ("matplotlib",),
    "mpi4py": ("mpi4py",),
    "nacl": ("pynacl",),
    "OpenSSL": ("pyopenssl",),
    "PIL": ("pillow", "pillow-simd"),
    "pkg_resources": ("setuptools",),
    "psycopg2": ("psycopg2", "psycopg2-binary"),
    "pylab": ("matplotlib",),
    "pytorch_lightning": ("pytorch-lightning", "lightning"),
    "rest_framework": ("djangorestframework",),
    "ruamel.yaml": ("ruamel-yaml",),
    "sentence_transformers": ("sentence-transformers",),
    "serial": ("pyserial",),
    "skimage": ("scikit-image",),
    "sklearn": ("scikit-learn", "scikit-learn-intelex"),
    "slugify": ("python-slugify",),
    "skopt": ("scikit-optimize",),
    "socks": ("pysocks",),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly"),
    "tensorboard": ("tensorboard",),
    "tensorboardX": ("tensorboardx",),
    "tensorflow_datasets": ("tensorflow-datasets",),
    "tensorflow_hub": ("tensorflow-hub",),
    "torch_xla": ("torch-xla",),
    "umap": ("umap-learn",),
    "usb": ("pyusb",),
    "win32api": ("pywin32",),
    "yaml": ("pyyaml",),
    "zmq": ("pyzmq",),
    "xgboost": ("xgboost", "xgboost-cpu"),
}

# Distribution → what it brings along and trainers import without naming it.
BROUGHT_ALONG: dict[str, tuple[str, ...]] = {
    "accelerate": ("torch", "numpy", "huggingface-hub", "pyyaml", "packaging", "psutil", "safetensors"),
    "beautifulsoup4": ("soupsieve", "typing-extensions"),
    "catboost": ("numpy", "pandas", "scipy", "matplotlib", "plotly", "six"),
    "datasets": ("numpy", "pandas", "pyarrow", "requests", "tqdm", "fsspec", "huggingface-hub", "pyyaml"),
    "flax": ("jax", "numpy", "optax", "msgpack", "pyyaml", "rich"),
    "google-cloud-aiplatform": ("google-cloud-storage", "google-cloud-bigquery", "protobuf", "pydantic"),
    "google-cloud-bigquery": ("google-api-core", "google-auth", "requests", "python-dateutil", "packaging"),
    "google-cloud-storage": ("google-api-core", "google-auth", "requests", "protobuf"),
    "google-api-core": ("google-auth", "protobuf", "requests"),
    "imbalanced-learn": ("scikit-learn", "numpy", "scipy", "joblib"),
    "h5py": ("numpy",),
    "jax": ("jaxlib", "numpy", "scipy", "ml-dtypes"),
    "jinja2": ("markupsafe",),
    "keras": ("numpy", "h5py", "rich", "ml-dtypes", "packaging"),
    "lightgbm": ("numpy", "scipy"),
    "lightning": ("torch", "torchmetrics", "numpy", "pyyaml", "tqdm", "pytorch-lightning", "fsspec"),
    "matplotlib": ("numpy", "pillow", "python-dateutil", "packaging", "contourpy", "cycler", "pyparsing"),
    "opencv-python": ("numpy",),
    "opencv-python-headless": ("numpy",),
    "optuna": ("numpy", "sqlalchemy", "tqdm", "pyyaml", "alembic", "packaging"),
    "pandas": ("numpy", "python-dateutil", "pytz", "tzdata"),
    "polars": (),
    "pyspark": ("py4j",),
    "python-dateutil": ("six",),
    "pytorch-lightning": ("torch", "torchmetrics", "numpy", "pyyaml", "tqdm", "fsspec"),
    "ray": ("requests", "pyyaml", "protobuf", "msgpack", "filelock", "packaging"),
    "requests": ("urllib3", "certifi", "idna", "charset-normalizer"),
    "scikit-image": ("numpy", "scipy", "pillow", "networkx", "imageio"),
    "scikit-learn": ("numpy", "scipy", "joblib", "threadpoolctl"),
    "scipy": ("numpy",),
    "seaborn": ("numpy", "pandas", "matplotlib"),
    "sentence-transformers": ("transformers", "torch", "scikit-learn", "huggingface-hub", "tqdm"),
    "statsmodels": ("numpy", "scipy", "pandas", "patsy", "packaging"),
    "tensorflow": (
        *("numpy", "keras", "tensorboard", "h5py", "protobuf", "absl-py", "grpcio", "six", "requests"),
        *("packaging", "setuptools", "termcolor", "typing-extensions", "wrapt", "ml-dtypes", "markdown"),
    ),
    "tensorflow-cpu": ("tensorflow",),
    "tensorflow-datasets": ("numpy", "absl-py", "protobuf", "requests", "tqdm"),
    "torch": ("networkx", "jinja2", "sympy", "filelock", "fsspec", "typing-extensions"),
    "torchaudio": ("torch",),
    "torchvision": ("torch", "numpy", "pillow"),
    "transformers": (
        *("numpy", "huggingface-hub", "tokenizers", "safetensors", "tqdm", "pyyaml", "requests"),
        *("regex", "filelock", "packaging"),
    ),
    "wandb": ("click", "pyyaml", "requests", "psutil", "protobuf"),
    "xgboost": ("numpy", "scipy"),
}


# Distributions that bring nothing along which trainers import.
_ALONE = frozenset(
    "absl-py certifi charset-normalizer click cloudml-hypertune cloudpickle einops filelock fire fsspec idna "
    "joblib jsonschema lxml msgpack ml-dtypes networkx numpy orjson packaging pillow plotly protobuf psutil "
    "pyarrow pydantic python-dotenv pytz pyyaml regex safetensors setuptools simplejson six tabulate "
    "termcolor threadpoolctl tomli toml tqdm typing-extensions tzdata urllib3 wheel wrapt xxhash".split()
)

# Distributions that are known to bring an import of their own name.
_SAME_NAME = frozenset(
    "bitsandbytes deepspeed diffusers einops evaluate fastapi fire gensim gymnasium h5py huggingface-hub "
    "joblib mlflow nltk omegaconf peft pyarrow ray spacy tensorflow-probability tiktoken timm trl".split()
).union(BROUGHT_ALONG, *BROUGHT_ALONG.values())
_KNOWN = _ALONE | BROUGHT_ALONG.keys()


def candidates(module: str) -> tuple[str, ...]:
    """Distributions that may bring a dotted import, by canonical name, the most likely first."""
    if known := _in_table(module):
        return known
    parts = module.split(".")
    if parts[0] == "google":
        return tuple(canonical("-".join(parts[:length])) for length in range(min(len(parts), 3), 1, -1))
    return (canonical(parts[0]),)


def known_distribution(module: str) -> str:
    """The distribution that the tables name for an import; or ""."""
    known = _in_table(module)
    if known:
        return known[0]
    top = canonical(module.partition(".")[0])
    return top if top in _SAME_NAME else ""


def namesake(distribution: str) -> tuple[str, str]:
    """The import that a distribution is called like, and the one that brings it; empty where it does so."""
    for module, brings in DISTRIBUTIONS.items():
        if canonical(module) == distribution and distribution not in brings:
            return module, brings[0]
    return "", ""


def may_bring(distribution: str, module: str) -> bool:
    """Whether a distribution of which nothing is known has a name made from that of an import."""
    words = f"-{canonical(module.partition('.')[0])}-"
    return distribution not in _SAME_NAME and words in f"-{distribution}-"


def are_known(requirements: Iterable[str]) -> bool:
    """Whether the tables have all that these requirements bring. An extra brings more than they say."""
    return all(
        "[" not in line.partition(";")[0] and (name := distribution_name(line)) and name in _KNOWN
        for line in requirements
    )


def _in_table(module: str) -> tuple[str, ...]:
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        if known := DISTRIBUTIONS.get(".".join(parts[:length])):
            return known
    return ()


def with_brought_along(names: frozenset[str]) -> frozenset[str]:
    """The distributions and everything that is known to come with them."""
    known, waiting = set(names), list(names)
    while waiting:
        new = set(BROUGHT_ALONG.get(waiting.pop(), ())) - known
        known |= new
        waiting += new
    return frozenset(known)
