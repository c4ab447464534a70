// A device process: its options, its two sockets, and its end.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <thread>

#include "link.h"
#include "log.h"
#include "services.h"
#include "supervision.h"
#include "threads.h"

namespace nnhal {
namespace {

constexpr std::size_t kMostPathBytes = 107;
constexpr int kMostWorkers = 256;
constexpr std::int64_t kMostSpinUs = 10'000;
constexpr int kMostMessageBytes = 64 << 20;
constexpr int kRefused = 2;  // the status of a process that cannot have what its options say
constexpr auto kGrace = std::chrono::seconds(2);

struct Options {
  std::string endpoint;
  int workers = 1;
  std::int64_t spin_us = 0;
  int supervisor = -1;
  logs::Level level = logs::Level::info;
  std::string admin_key;
};

// Ends the process before it serves, with one line that says why.
class Refusal : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::int64_t number_of(const std::string& option, const std::string& word, std::int64_t least, std::int64_t most) {
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(word.c_str(), &end, 10);
  if (word.empty() || *end != '\0' || errno != 0 || number < least || number > most) {
    throw Refusal(text(option, " '", word, "': expected a number from ", least, " to ", most));
  }
  return number;
}

std::string key_in(const std::string& path) {
  struct stat status {};
  std::ifstream file(path);
  std::string key;
  if (!file || !std::getline(file, key) || key.empty()) throw Refusal("--admin-key " + path + ": no key can be read from it");
  if (stat(path.c_str(), &status) != 0 || (status.st_mode & 077) != 0) {
    throw Refusal("--admin-key " + path + ": others may read it, expected mode 0600");
  }
  return key;
}

Options options_from(int argc, char** argv) {
  Options options;
  if (const char* endpoint = std::getenv("NNHAL_ENDPOINT")) options.endpoint = endpoint;
  if (const char* socket = std::getenv("NNHAL_SUPERVISOR")) {
    options.supervisor = static_cast<int>(number_of("NNHAL_SUPERVISOR", socket, 0, INT_MAX));
  }
  for (int i = 1; i < argc; i++) {
    const std::string option = argv[i];
    if (i + 1 == argc) throw Refusal(option + ": expected a value, as in --endpoint DIR");
    const std::string value = argv[++i];
    if (option == "--endpoint") {
      options.endpoint = value;
    } else if (option == "--workers") {
      options.workers = static_cast<int>(number_of(option, value, 1, kMostWorkers));
    } else if (option == "--spin-us") {
      options.spin_us = number_of(option, value, 0, kMostSpinUs);
    } else if (option == "--supervisor") {
      options.supervisor = static_cast<int>(number_of(option, value, 0, INT_MAX));
    } else if (option == "--log-level") {
      if (!logs::level_from(value, options.level)) {
        throw Refusal("--log-level '" + value + "': expected debug, info, warning or error");
      }
    } else if (option == "--admin-key") {
      options.admin_key = key_in(value);
    } else {
      throw Refusal(option + ": expected --endpoint, --workers, --spin-us, --log-level, --admin-key or --supervisor");
    }
  }
  if (options.endpoint.empty()) throw Refusal("no endpoint: expected --endpoint DIR, the folder of its two sockets");
  return options;
}

// Makes the folder of the sockets, into which nobody else may look.
void make_folder(const std::string& path) {
  if (path.size() + std::strlen("/device.sock") > kMostPathBytes) {
    throw Refusal(text(path, "/device.sock is too long, a socket's path may have ", kMostPathBytes, " bytes"));
  }
  if (path.find(',') != std::string::npos) {
    throw Refusal(path + " has a comma, at which gRPC would end the path: expected a directory without one");
  }
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) throw Refusal(path + " cannot be made: " + std::strerror(errno));
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) throw Refusal(path + " is no directory");
  if (status.st_uid != geteuid() || (status.st_mode & 022) != 0) {
    throw Refusal(path + " belongs to another user, or others may write to it: expected a folder of this user's own");
  }
}

// Each mapped pool and each channel holds a descriptor.
void use_all_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int serve_until_end(Driver& driver, const Options& options) {
  Supervision supervision(options.supervisor);
  use_all_descriptors();
  logs::name_process(driver.name());
  logs::show_from(options.level);
  // Whoever looks keeps the caller from running if there is but one processor.
  Channel::spin_ns = std::thread::hardware_concurrency() > 1 ? options.spin_us * 1000 : 0;
  make_folder(options.endpoint);

  Device device(driver, options.workers);
  const Oversight oversight{options.admin_key.empty() ? supervision.admin_key() : options.admin_key,
                            supervision.is_supervised(), [&supervision] { supervision.exit(); }};
  const auto contract = contract_services(device), operators = operator_services(device, oversight);
  const std::string path = options.endpoint + "/device.sock";
  unlink(path.c_str());
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(kMostMessageBytes);
  builder.SetMaxSendMessageSize(-1);
  for (const auto* services : {&contract, &operators}) {
    for (const auto& service : *services) builder.RegisterService(service.get());
  }
  LinkServer link(options.endpoint + "/link.sock", device.sessions);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) throw Refusal("cannot listen at " + path);
  for (const std::string& name : kServiceNames) server->GetHealthCheckService()->SetServingStatus(name, true);
  link.start();
  supervision.ready();
  const int status = supervision.wait();

  server->GetHealthCheckService()->Shutdown();
  server->Shutdown(std::chrono::system_clock::now() + kGrace);
  link.close();
  threads::await_end(kGrace);
  unlink(path.c_str());
  return status;
}

}  // namespace

int serve(Driver& driver, int argc, char** argv) {
  try {
    const int status = serve_until_end(driver, options_from(argc, argv));
    std::cout.flush();
    _exit(status);  // a run that does not end holds on to what would be destroyed now
  } catch (const std::exception& error) {
    std::cerr << driver.name() << ": " << error.what() << "\n";
    return kRefused;
  }
}

}  // namespace nnhal
