from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_tools.up import DEFAULT_TOPOLOGY, DeviceEntry, TopologyError, read_topology

ONE = '[[device]]\ndriver = "cpu_ref"\n'


def written(directory: Path, text: str) -> Path:
    path = directory / "testbed.toml"
    path.write_text(text)
    return path


def test_devices_are_read_in_order_of_preference_with_their_defaults(tmp_path: Path) -> None:
    text = '[[device]]\nname = "npu0"\ndriver = "ethos_n"\nworkers = 4\nthreads = 2\n' + ONE
    topology = read_topology(written(tmp_path, text))
    assert topology.device == (
        DeviceEntry(driver="ethos_n", name="npu0", workers=4, threads=2),
        DeviceEntry(driver="cpu_ref", workers=1, threads=1),
    )
    assert [entry.title for entry in topology.device] == ["npu0", "cpu_ref"]
    assert read_topology(written(tmp_path, "version = 1\n" + text)) == topology


def test_options_of_the_driver_are_those_of_its_command_line(tmp_path: Path) -> None:
    text = '[[device]]\ndriver = "ethos_u"\noptions = { sram = "256KiB", checked = true }\n' + ONE
    first, second = read_topology(written(tmp_path, text)).device
    assert first.driver_options == ["--option=sram=256KiB", "--option=checked=true"]
    assert second.driver_options == []


def test_one_driver_may_serve_several_devices_by_different_names(tmp_path: Path) -> None:
    text = ONE + ONE + 'name = "other"\n'
    assert [entry.title for entry in read_topology(written(tmp_path, text)).device] == ["cpu_ref", "other"]


def test_without_a_file_there_are_two_devices() -> None:
    assert [entry.title for entry in DEFAULT_TOPOLOGY.device] == ["cpu_acc", "cpu_ref"]


def test_a_file_that_names_no_devices_has_those_two(tmp_path: Path) -> None:
    read = read_topology(written(tmp_path, "[framework]\nhttp_port = 0\n"))
    assert (read.device, read.framework_options) == (DEFAULT_TOPOLOGY.device, ["--http-port=0"])


def test_the_options_of_the_framework_are_those_of_its_command_line(tmp_path: Path) -> None:
    text = ONE + '[framework]\nmodel_repository = ["/a", "/b"]\nhttp_port = 0\nallow_client_shm = true\n'
    topology = read_topology(written(tmp_path, text))
    options = ["--model-repository=/a", "--model-repository=/b", "--http-port=0", "--allow-client-shm=true"]
    assert topology.framework_options == options
    more = [*options[:2], "--model-repository=/c", *options[2:]]
    assert topology.serving(Path("/c")).framework_options == more


def test_a_topology_has_a_dashboard_if_it_is_asked_for(tmp_path: Path) -> None:
    topology = read_topology(written(tmp_path, ONE + '[dashboard]\nport = 9000\nallowed_host = ["a", "b"]\n'))
    assert topology.dashboard_options == ["--port=9000", "--allowed-host=a", "--allowed-host=b"]
    assert topology.shown(0).dashboard_options == ["--port=0", "--allowed-host=a", "--allowed-host=b"]
    assert topology.hidden().dashboard is None
    assert (DEFAULT_TOPOLOGY.dashboard, DEFAULT_TOPOLOGY.shown().dashboard) == (None, {})


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("version = 2\nfleet = 3\n", "a topology of version 2; this nnhal reads version 1"),
        ("version = 'new'\n" + ONE, "a topology of version 'new'; this nnhal reads version 1"),
        ("device = []", "device: Tuple should have at least 1 item"),
        ("[[device]]\n", "device.0.driver: Field required"),
        (ONE + '[[device]]\ndriver = ""', "device.1.driver: String should match pattern"),
        (ONE + "workers = 0", "device.0.workers: Input should be greater than or equal to 1"),
        (ONE + "threads = 257", "device.0.threads: Input should be less than or equal to 256"),
        (ONE + 'workers = "many"', "device.0.workers: Input should be a valid integer"),
        (ONE + "options = { sram = [1] }", "device.0.options.sram."),
        (ONE + 'options = { "s ram" = 1 }', "device.0.options.s ram."),
        (ONE + "worker = 1", "device.0.worker: there is no such key, expected one of "),
        ("devices = 3\n" + ONE, "devices: there is no such key, expected one of "),
        (ONE + ONE, "the file: Value error, device names ['cpu_ref', 'cpu_ref']: expected distinct ones"),
        (ONE + 'name = "framework"', "the file: Value error, device names ['framework']: expected distinct ones"),
        (ONE + 'name = "dashboard"', "the file: Value error, device names ['dashboard']: expected distinct ones"),
        (ONE + 'name = "supervisor"', "the file: Value error, device names ['supervisor']: expected distinct ones"),
        (ONE + "[dashboard]\ndirectory = 'x'", "the file: Value error, dashboard has directory: expected only options"),
        (ONE + "name = \n", "Invalid value (at line 3, column"),
        (ONE + "[framework]\nendpoint = 'x'", "the file: Value error, framework has endpoint: expected only options"),
        (ONE + "[framework]\n'--x' = 1", "framework.--x.[key]: String should match pattern"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_place(tmp_path: Path, text: str, place: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(TopologyError) as error:
        read_topology(path)
    assert str(error.value).startswith(f"{path}: {place}")


@pytest.mark.parametrize("name", ["..", ".", ".hidden", "a/b", "/tmp", "a b", "-x", "naïve", ""])
@pytest.mark.parametrize("field", ["driver", "name"])
def test_a_name_is_good_for_a_directory(tmp_path: Path, field: str, name: str) -> None:
    text = {"driver": "cpu_ref"} | {field: name}
    path = written(tmp_path, "[[device]]\n" + "".join(f'{key} = "{value}"\n' for key, value in text.items()))
    with pytest.raises(TopologyError, match=rf"device\.0\.{field}: String should match pattern"):
        read_topology(path)


def test_a_file_that_is_missing_or_no_text_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"none\.toml: No such file or directory"):
        read_topology(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(TopologyError, match=r"bytes\.toml: got no UTF-8, expected a topology"):
        read_topology(tmp_path / "bytes.toml")


def test_a_device_on_another_host_is_named_by_its_address(tmp_path: Path) -> None:
    text = '[[device]]\nname = "npu-7"\nendpoint = "tcp://npu-host:9000"\ntoken_file = "t"\ninsecure = true\n' + ONE
    far, here = read_topology(written(tmp_path, text)).device
    assert (far.driver, far.title) == ("remote", "npu-7")
    assert far.driver_options == [
        "--option=endpoint=tcp://npu-host:9000",
        "--option=token_file=t",
        "--option=insecure=true",
        "--option=name=npu-7",
    ]
    assert here.driver_options == []


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ('driver = "cpu_ref"\nendpoint = "tcp://a:1"\n', "driver 'cpu_ref' and endpoint 'tcp://a:1'"),
        ('driver = "cpu_ref"\ntoken_file = "t"\n', "token_file: expected only with an endpoint"),
        ('endpoint = "npu-host:9000"\n', "endpoint"),
        ('endpoint = "tcp://a:1"\noptions = { endpoint = "tcp://b:2" }\n', "options has endpoint"),
    ],
)
def test_a_device_that_is_here_and_there_is_refused(tmp_path: Path, lines: str, reason: str) -> None:
    with pytest.raises(TopologyError, match=reason):
        read_topology(written(tmp_path, "[[device]]\n" + lines))


def test_a_device_that_runs_already_is_named_by_its_directory(tmp_path: Path) -> None:
    text = f'[[device]]\nendpoint = "{tmp_path}/npu"\n[[device]]\nname = "other"\nendpoint = "./here"\n'
    first, second = read_topology(written(tmp_path, text)).device
    assert (first.title, first.directory, first.is_foreign) == ("npu", tmp_path / "npu", True)
    assert (second.title, second.directory) == ("other", Path("here").absolute())


def test_a_device_that_a_program_serves_is_named_by_its_command(tmp_path: Path) -> None:
    text = '[[device]]\nname = "npu"\ncommand = ["./acme_npu", "--endpoint", "{endpoint}"]\n'
    (device,) = read_topology(written(tmp_path, text)).device
    assert (device.title, device.directory, device.is_foreign) == ("npu", None, True)
    assert device.command == ("./acme_npu", "--endpoint", "{endpoint}")


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ('command = ["npu"]\n', "command without a name, expected both"),
        (
            'name = "npu"\ncommand = ["npu"]\nendpoint = "/run/npu"\n',
            "command and endpoint",
        ),
        ('name = "npu"\ncommand = ["npu"]\ndriver = "cpu_ref"\n', "driver 'cpu_ref' and command: expected one of both"),
        (
            'endpoint = "/run/npu"\ndriver = "cpu_ref"\n',
            "driver 'cpu_ref' and endpoint",
        ),
        ('endpoint = "/run/npu"\nworkers = 2\n', "workers: expected it without endpoint '/run/npu'"),
        ('name = "npu"\ncommand = ["npu"]\noptions = {a = 1}\n', "options: expected it without command, whose program"),
        ('endpoint = "/run/npu"\ntoken_file = "t"\n', "token_file: expected it without endpoint '/run/npu'"),
        ('endpoint = "/run/an npu"\n', "endpoint '/run/an npu' without a name: 'an npu' can be none"),
        ('endpoint = "npu"\n', "got 'npu', expected tcp://HOST:PORT, or the directory of a running device"),
        ('endpoint = "tcp://npu"\n', "got 'tcp://npu', expected tcp://HOST:PORT, or the directory"),
        ('driver = "foreign"\n', "driver 'foreign': expected an endpoint or a command instead"),
        ('name = "npu"\ncommand = [""]\n', "command.0: String should have at least 1 character"),
    ],
)
def test_a_foreign_device_is_of_one_kind(tmp_path: Path, lines: str, reason: str) -> None:
    with pytest.raises(TopologyError, match=reason):
        read_topology(written(tmp_path, "[[device]]\n" + lines))


@pytest.mark.parametrize(
    ("text", "meant"),
    [(ONE + "wokers = 1", "workers"), ("[[devices]]\n", "device"), (ONE + "[frame_work]", "framework")],
)
def test_a_key_that_is_near_another_is_told_with_that(tmp_path: Path, text: str, meant: str) -> None:
    with pytest.raises(TopologyError, match=f"did you mean '{meant}'?"):
        read_topology(written(tmp_path, text))
