// Reads the build id from the notes of the running executable.
#include "libtrain/engine/build_info.h"

#include "libtrain/io/hdf5_file.h"

#include <fmt/format.h>

#include <cstring>
#include <gnu/libc-version.h>
#include <link.h>
#include <string>

namespace trainyard::engine {

namespace {

constexpr std::size_t padded(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

// The note of type NT_GNU_BUILD_ID among the notes of one segment; "" when there is none.
std::string build_id_in(const char* at, std::size_t bytes) {
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof note);
    const auto whole = sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
    if (whole > bytes) return {};
    const char* name = at + sizeof note;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      std::string id;
      for (std::size_t i = 0; i < note.n_descsz && i < 8; ++i)
        id += fmt::format("{:02x}", static_cast<unsigned char>(name[padded(note.n_namesz) + i]));
      return id;
    }
    at += whole;
    bytes -= whole;
  }
  return {};
}

// The dynamic loader lists the executable first.
int of_executable(dl_phdr_info* info, std::size_t, void* out) {
  auto& id = *static_cast<std::string*>(out);
  for (int i = 0; i < info->dlpi_phnum && id.empty(); ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type == PT_NOTE)
      id = build_id_in(reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz);
  }
  return 1;
}

}  // namespace

nlohmann::json build_versions() {
  std::string id;
  ::dl_iterate_phdr(of_executable, &id);
#ifdef __clang__
  const char* const compiler = "clang " __clang_version__;
#else
  const char* const compiler = "g++ " __VERSION__;
#endif
  return {{"trainyard", "0.1.0"},
          {"build", id.empty() ? "unknown" : id},
          {"compiler", compiler},
          {"hdf5", io::hdf5_version()},
          {"libc", ::gnu_get_libc_version()}};
}

}  // namespace trainyard::engine
