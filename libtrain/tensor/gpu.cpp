// Finds and opens the GPU module.
#include "libtrain/tensor/gpu.h"

#include "libtrain/base/error.h"
#include "libtrain/base/setting_text.h"

#include <charconv>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::tensor {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> places() {
  if (const char* named = std::getenv("TRAINYARD_GPU_MODULE"); named != nullptr && *named != '\0') return {named};
  std::error_code error;
  const auto program = fs::read_symlink("/proc/self/exe", error).parent_path();
  return {(program / "libtrainyard_cuda.so").string(),
          (program / "../lib/trainyard/libtrainyard_cuda.so").lexically_normal().string()};
}

struct Loaded {
  const GpuModule* module = nullptr;
  std::string refusal, hint;
};

Loaded load() {
  Loaded out;
  for (const auto& place : places()) {
    std::error_code error;
    if (!fs::exists(place, error)) continue;
    void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      out.refusal = fmt::format("the GPU module {} cannot be loaded: {}", place, dlerror());
      out.hint = "are CUDA's libraries installed, and on LD_LIBRARY_PATH?";
      return out;
    }
    const auto entry = reinterpret_cast<const GpuModule* (*)()>(dlsym(library, "trainyard_gpu_module"));
    const auto* module = entry != nullptr ? entry() : nullptr;
    if (module == nullptr || module->abi != gpu_abi) {
      out.refusal = fmt::format("{} is not a GPU module of this build", place);
      out.hint = "programs and module must come from one build";
      return out;
    }
    if (module->runtime->device_count() < 1) {
      out.refusal = "this machine has no GPU that CUDA can use";
      out.hint = base::text("check nvidia-smi and CUDA_VISIBLE_DEVICES, or use $device cpu");
      return out;
    }
    out.module = module;
    return out;
  }
  out.refusal = fmt::format("this build has no CUDA: there is no {}", places().front());
  out.hint = base::text("build with the CUDA toolkit installed (preset cuda), or use $device cpu");
  return out;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

}  // namespace

const GpuModule& gpu_module() {
  if (loaded().module == nullptr) throw base::EnvironmentError(loaded().refusal, loaded().hint);
  return *loaded().module;
}

bool gpu_available() { return loaded().module != nullptr; }

GpuInfo gpu_info(int device) {
  const auto& runtime = *gpu_module().runtime;
  const int count = runtime.device_count();
  if (device < 0 || device >= count)
    throw base::EnvironmentError(fmt::format("there is no GPU {}: this process sees {}", device, count),
                                 "check CUDA_VISIBLE_DEVICES and the job's GPUs for each task");
  GpuInfo info;
  require_gpu(runtime.describe(device, &info), "asking for the GPU's properties");
  const std::string architectures = gpu_module().architectures;
  if (!runs_on(architectures, info.major, info.minor))
    throw base::EnvironmentError(
        fmt::format("GPU {} ({}) has compute capability {}.{}, and the GPU module is compiled for {}", device,
                    info.name, info.major, info.minor, architectures),
        base::text("build with -DCMAKE_CUDA_ARCHITECTURES={}{} (the preset cuda has 80 and 90), or use $device cpu",
                   info.major, info.minor));
  return info;
}

bool runs_on(const std::string& architectures, int major, int minor) {
  std::istringstream list(architectures);
  bool any = architectures.empty();
  for (std::string entry; std::getline(list, entry, ',');) {
    int number = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
    if (error != std::errc()) return true;  // "native", "all": made for the devices that are there
    const bool later = number <= 10 * major + minor, has_ptx = !std::string_view(end).ends_with("-real");
    const bool exact = *end == 'a';  // 90a: this device and no other
    any = any || (exact ? number == 10 * major + minor : later && (has_ptx || number / 10 == major));
  }
  return any;
}

void require_gpu(const char* failure, const char* what) {
  if (failure != nullptr)
    throw base::EnvironmentError(
        fmt::format("{}: {}", what, failure),
        base::text("see dmesg and nvidia-smi; a smaller $micro-batch or more ranks need less memory"));
}

}  // namespace trainyard::tensor
