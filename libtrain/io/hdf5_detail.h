// Shared by the sources of the HDF5 wrapper: owning ids, element types, and the library's error stack as a sentence.
#pragma once

#include "libtrain/base/dtype.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::io::hdf5 {

// Owns one id of the library and releases it with the function for its kind.
class Id {
 public:
  using Close = int (*)(std::int64_t);
  Id(std::int64_t id, Close close) : id_(id), close_(close) {}
  ~Id() {
    if (id_ >= 0) close_(id_);
  }
  Id(Id&& other) noexcept : id_(other.id_), close_(other.close_) { other.id_ = -1; }
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  std::int64_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }

 private:
  std::int64_t id_;
  Close close_;
};

// Stops the library from printing its error stack in this thread. Call it before any other call of the library.
void be_quiet();
// An access list for datasets and links that makes links into other files fail, because nobody examined those files.
std::int64_t own_links();
// Throws EnvironmentError for a file being written, InputError for a file being read. The message has the system's
// reason (no space, a failing device) or else the innermost description on this thread's error stack. A read that the
// system refuses is Unreadable (base/system_error.h). Throws bad_alloc where the system gave no reason and memory is
// short. Clears the stack.
[[noreturn]] void fail(bool writing, const std::string& path, const std::string& what);
// Puts an error number on that stack, where fail() finds it; 0 means none.
void push_errno(int number, const char* function);
// The answer of a library call that asks a question. A negative answer is an error: where the system refused to read,
// it throws as fail() does; any other error counts as no.
bool is_yes(int answer, const std::string& path, const std::string& what);

Id type_of(base::DType dtype);
// Throws InputError for a type that is no DType (big-endian, compound, ...).
base::DType dtype_of(std::int64_t type, const std::string& where);
Id space_of(const std::vector<std::int64_t>& shape);

Id property_list(std::int64_t property_class);
Id dataset_id(std::int64_t id);
Id attribute_id(std::int64_t id);
Id group_id(std::int64_t id);
Id object_id(std::int64_t id);
Id type_id(std::int64_t id);
Id space_id(std::int64_t id);

// The library's file driver with three more checks. It refuses to open files for reading that examine() refuses, and
// does not follow damaged heap collections (hdf5_heap.h). It gives up where signals interrupt calls for ever. `path`
// may be any file that can be read.
std::int64_t careful_driver(const std::string& path);
// The variable-length text of an attribute in an open file. The library checks neither that the heap has the object nor
// that the object is long enough. So the library only returns the reference, and this function reads the text.
// InputError for a damaged heap.
std::string variable_text(std::int64_t file, std::int64_t attribute, const std::string& path, const std::string& what);

// The group that contains an object; "" for the root.
std::string group_of(const std::string& name);

}  // namespace trainyard::io::hdf5
