// Opens NCCL and fills the table of its functions.
#include "libtrain/comm/nccl_library.h"

#include "libtrain/base/error.h"

#include <cstdlib>
#include <dlfcn.h>

namespace trainyard::comm::nccl {

namespace {

std::string reason;

const Library* load() {
  const char* named = std::getenv("TRAINYARD_NCCL_LIBRARY");
  const char* name = named != nullptr && *named != '\0' ? named : "libnccl.so.2";
  void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    reason = dlerror();
    return nullptr;
  }
  static Library table;
  const auto find = [&](auto& entry, const char* symbol) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(handle, symbol));
    if (entry == nullptr)
      throw base::EnvironmentError(fmt::format("{} has no {}", name, symbol), "NCCL 2.7 or newer is needed");
  };
  find(table.get_version, "ncclGetVersion");
  find(table.get_unique_id, "ncclGetUniqueId");
  find(table.init_rank, "ncclCommInitRank");
  find(table.destroy, "ncclCommDestroy");
  find(table.abort, "ncclCommAbort");
  find(table.async_error, "ncclCommGetAsyncError");
  find(table.error_text, "ncclGetErrorString");
  find(table.all_reduce, "ncclAllReduce");
  find(table.all_gather, "ncclAllGather");
  find(table.reduce_scatter, "ncclReduceScatter");
  find(table.broadcast, "ncclBroadcast");
  find(table.send, "ncclSend");
  find(table.receive, "ncclRecv");
  find(table.group_start, "ncclGroupStart");
  find(table.group_end, "ncclGroupEnd");
  return &table;
}

}  // namespace

const Library* library() {
  static const Library* const once = load();
  return once;
}

std::string refusal() {
  library();
  return reason;
}

}  // namespace trainyard::comm::nccl
