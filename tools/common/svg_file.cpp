// Runs rsvg-convert on files in memory. A PNG of ours is marked by a text chunk.
#include "tools/common/svg_file.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/descriptor.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <spawn.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace trainyard::tools {

namespace {

constexpr const char* converter = "rsvg-convert";
constexpr std::string_view png_begin{"\x89PNG\r\n\x1a\n", 8};
constexpr std::size_t png_head = 8 + 25;  // with its first chunk (IHDR), which holds the image size

enum class Kind { svg, png, other };

std::string ending_of(const std::string& path) {
  auto ending = std::filesystem::path(path).extension().string();
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return ending;
}

Kind kind_of(const std::string& path) {
  const auto ending = ending_of(path);
  return ending.empty() || ending == ".svg" ? Kind::svg : ending == ".png" ? Kind::png : Kind::other;
}

// The path of rsvg-convert; "" if no folder of PATH has it.
std::string find_converter() {
  const char* given = std::getenv("PATH");
  const std::string path = given == nullptr ? "/usr/local/bin:/usr/bin:/bin" : given;
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find(':', begin), path.size());
    const auto folder = path.substr(begin, end - begin);
    auto file = (folder.empty() ? "." : folder) + "/" + converter;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0) return file;
    begin = end + 1;
  }
  return "";
}

std::string require_converter(const std::string& asked_by) {
  auto found = find_converter();
  if (found.empty())
    throw base::EnvironmentError(
        fmt::format("{}: a PNG is made by rsvg-convert, and no folder of PATH has it", asked_by),
        "install librsvg2-bin (Debian, Ubuntu) or librsvg2-tools (Fedora, RHEL), or give a name that ends in .svg");
  return found;
}

// An unnamed file that the child process can read or write.
base::Descriptor in_memory(std::string_view content) {
  base::Descriptor file(::memfd_create("drawing", MFD_CLOEXEC));
  if (!file.is_open() || base::write_all(file.get(), content) != 0 || ::lseek(file.get(), 0, SEEK_SET) != 0)
    throw base::EnvironmentError(fmt::format("no memory for a drawing: {}", std::strerror(errno)),
                                 "give a name that ends in .svg");
  return file;
}

std::string content_of(const base::Descriptor& file) {
  std::string out;
  std::array<char, 1 << 16> piece{};
  ssize_t n = 0;
  while ((n = ::pread(file.get(), piece.data(), piece.size(), static_cast<off_t>(out.size()))) > 0 ||
         (n < 0 && errno == EINTR))
    if (n > 0) out.append(piece.data(), static_cast<std::size_t>(n));
  return out;
}

// Returns the exit code, or 128 + the signal. Error output, or the system's error, goes to `errors`.
int run_converter(const std::string& program, const base::Descriptor& in, const base::Descriptor& out,
                  const base::Descriptor& err, std::string& errors) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err.get(), STDERR_FILENO);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int signal : {SIGPIPE, SIGXFSZ}) sigaddset(&defaults, signal);  // our programs ignore them
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const char* words[] = {converter, "--format=png", "--zoom=2", nullptr};
  pid_t child = 0;
  const int refused =
      ::posix_spawn(&child, program.c_str(), &files, &attributes, const_cast<char* const*>(words), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (refused != 0) {
    errors = std::strerror(refused);
    return 127;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) {
      errors = std::strerror(errno);
      return 127;
    }
  errors = content_of(err);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string big_endian(std::uint32_t v) {
  std::string out;
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>((v >> shift) & 0xFF);
  return out;
}

// The CRC32 that PNG uses.
std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

// The chunk that marks a PNG as ours.
std::string own_chunk() {
  const std::string text = "Software" + std::string(1, '\0') + "Trainyard", body = "tEXt" + text;
  return big_endian(static_cast<std::uint32_t>(text.size())) + body + big_endian(crc32(body));
}

std::string png_of(const std::string& svg, const std::string& path) {
  const auto program = require_converter(path);
  const auto in = in_memory(svg), out = in_memory(""), err = in_memory("");
  std::string errors;
  const int code = run_converter(program, in, out, err, errors);
  const auto png = content_of(out);
  if (code != 0 || !png.starts_with(png_begin) || png.size() < png_head) {
    errors = base::one_line(base::shortened(errors.substr(0, errors.find('\n'))));
    throw base::EnvironmentError(
        fmt::format("{} made no PNG for {}: exit code {}{}", program, path, code, errors.empty() ? "" : ", " + errors),
        "give a name that ends in .svg");
  }
  return png.substr(0, png_head) + own_chunk() + png.substr(png_head);
}

bool is_own(std::string_view file) {
  if (file.empty()) return true;
  if (file.starts_with(png_begin)) return file.size() > png_head && file.substr(png_head).starts_with(own_chunk());
  return file.starts_with("<svg ") && file.find("\n<style>.title{") < 500;
}

}  // namespace

void require_drawing_name(const std::string& flag, const std::string& path) {
  const auto kind = kind_of(path);
  if (kind == Kind::other)
    throw base::UsageError(fmt::format("{}: a drawing is SVG or PNG, and {} ends in {}", flag, path, ending_of(path)),
                           "give a name that ends in .svg or .png");
  if (kind == Kind::png) require_converter(fmt::format("{} {}", flag, path));
}

base::Owned own_drawings(std::vector<std::string> precious) {
  const auto foreign = [](const std::string& path) -> std::string {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) return "is no file";
    return is_own(base::read_file(path)) ? "" : "is no drawing of these programs";
  };
  return {"a drawing of these programs", foreign, std::move(precious)};
}

void write_drawing(const std::string& path, const std::string& svg, std::vector<std::string> precious) {
  base::require_own(path, own_drawings(std::move(precious)));
  base::write_file(path, kind_of(path) == Kind::png ? png_of(svg, path) : svg);
}

}  // namespace trainyard::tools
