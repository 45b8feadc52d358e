// Ids, element types and error sentences of the HDF5 library.
#include "libtrain/io/hdf5_detail.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/last_resort.h"
#include "libtrain/base/system_error.h"

#include <hdf5.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <new>
#include <string_view>

namespace trainyard::io::hdf5 {

static_assert(sizeof(hid_t) == sizeof(std::int64_t));

namespace {

// "file write failed: time = ..., file descriptor = 5, errno = 28, error message = '...', buf = 0x7f..., ..."
constexpr std::string_view errno_key = "errno = ";

// Keeps the innermost description, or the first one that has the system's error number.
herr_t best_description(unsigned n, const H5E_error2_t* error, void* out) {
  auto* text = static_cast<std::string*>(out);
  if (error->desc == nullptr || text->find(errno_key) != text->npos) return 0;
  if (n == 0 || std::string_view(error->desc).find(errno_key) != std::string_view::npos) *text = error->desc;
  return 0;
}

// The type itself, or that from which type_of makes a narrow one.
hid_t standard_type(base::DType dtype) {
  if (base::is_narrow(dtype)) return H5T_IEEE_F32LE;
  switch (dtype) {
    case base::DType::f32: return H5T_IEEE_F32LE;
    case base::DType::f64: return H5T_IEEE_F64LE;
    case base::DType::i32: return H5T_STD_I32LE;
    case base::DType::i64: return H5T_STD_I64LE;
    case base::DType::u8: return H5T_STD_U8LE;
    case base::DType::u16: return H5T_STD_U16LE;
    case base::DType::u32: return H5T_STD_U32LE;
    case base::DType::u64: return H5T_STD_U64LE;
    default: return -1;
  }
}

}  // namespace

void be_quiet() {
  // A file that could not be closed (full disk) stays open in the library. The library's exit handler would crash over
  // it, so this call, which must be the first, disables the handler.
  [[maybe_unused]] static const auto once = H5dont_atexit();
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

std::int64_t own_links() {
  static const auto list = [] {
    const auto id = H5Pcreate(H5P_DATASET_ACCESS);
    const auto refuse = [](const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) -> herr_t {
      return -1;
    };
    H5Pset_elink_cb(id, refuse, nullptr);
    return static_cast<std::int64_t>(id);
  }();
  return list;
}

namespace {

// What the error stack of this thread holds: the system's error number, 0 without one, and the best description.
// Reading it clears the stack.
struct Reason {
  int number = 0;
  std::string text;
};

Reason reason_on_stack() {
  Reason reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, best_description, &reason.text);
  H5Eclear2(H5E_DEFAULT);
  const auto& text = reason.text;
  if (const auto at = text.find(errno_key);
      at != text.npos &&
      std::from_chars(text.data() + at + errno_key.size(), text.data() + text.size(), reason.number).ec != std::errc())
    reason.number = 0;
  if (reason.number != 0) reason.text = std::strerror(reason.number);
  else if (base::memory_is_short()) throw std::bad_alloc();  // the error is not about the file
  if (reason.text.empty()) reason.text = "the HDF5 library gives no reason";
  return reason;
}

[[noreturn]] void fail_for(const Reason& reason, bool writing, const std::string& path, const std::string& what) {
  const auto message = fmt::format("{}: cannot {}: {}", path, what, reason.text);
  const bool of_process = reason.number == EMFILE || reason.number == ENFILE || reason.number == ENOMEM;
  if (writing || of_process)
    throw base::EnvironmentError(message, reason.number != 0
                                              ? base::hint_for(reason.number)
                                              : "is there space left on the disk, and may the folder be written?");
  if (base::is_unreadable(reason.number))
    throw base::Unreadable(message, base::hint_for(reason.number), base::code_of_unreadable(reason.number));
  throw base::InputError(message, "the file is damaged or not what it should be");
}

}  // namespace

void fail(bool writing, const std::string& path, const std::string& what) {
  fail_for(reason_on_stack(), writing, path, what);
}

void push_errno(int number, const char* function) {
  if (number == 0) return;
  H5Epush2(H5E_DEFAULT, __FILE__, function, __LINE__, H5E_ERR_CLS, H5E_IO, H5E_FCNTL, "errno = %d", number);
}

bool is_yes(int answer, const std::string& path, const std::string& what) {
  if (answer >= 0) return answer > 0;
  const auto reason = reason_on_stack();
  if (base::is_unreadable(reason.number)) fail_for(reason, false, path, what);
  return false;
}

Id type_of(base::DType dtype) {
  Id type(H5Tcopy(standard_type(dtype)), [](std::int64_t id) { return H5Tclose(id); });
  if (base::is_narrow(dtype)) {  // a sign, then exponent and stored digits
    const auto bytes = base::size(base::size_of(dtype)), digits = base::size(base::traits_of(dtype).digits - 1),
               exponent = 8 * bytes - 1 - digits;
    H5Tset_fields(type.get(), 8 * bytes - 1, digits, exponent, 0, digits);
    H5Tset_precision(type.get(), 8 * bytes);
    H5Tset_size(type.get(), bytes);
    H5Tset_ebias(type.get(), (std::size_t{1} << (exponent - 1)) - 1);
  }
  return type;
}

base::DType dtype_of(std::int64_t type, const std::string& where) {
  std::string names;
  for (const auto& t : base::dtype_traits) {
    const auto ours = type_of(t.dtype);
    if (H5Tequal(type, ours.get()) > 0) return t.dtype;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", t.name);
  }
  throw base::InputError(fmt::format("{}: the element type is none of {} (little-endian)", where, names));
}

Id space_of(const std::vector<std::int64_t>& shape) {
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  return space_id(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
}

Id property_list(std::int64_t property_class) {
  return Id(H5Pcreate(property_class), [](std::int64_t id) { return H5Pclose(id); });
}
Id dataset_id(std::int64_t id) {
  return Id(id, [](std::int64_t i) { return H5Dclose(i); });
}
Id attribute_id(std::int64_t id) {
  return Id(id, [](std::int64_t i) { return H5Aclose(i); });
}
Id group_id(std::int64_t id) {
  return Id(id, [](std::int64_t i) { return H5Gclose(i); });
}
Id object_id(std::int64_t id) {
  return Id(id, [](std::int64_t i) { return H5Oclose(i); });
}
Id type_id(std::int64_t id) {
  return Id(id, [](std::int64_t i) { return H5Tclose(i); });
}
Id space_id(std::int64_t id) {
  return Id(id, [](std::int64_t i) { return H5Sclose(i); });
}

std::string group_of(const std::string& name) {
  const auto slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

}  // namespace trainyard::io::hdf5
