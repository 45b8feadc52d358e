// Shared by the sources of the HDF5 wrapper: owning ids, element types, and the library's error stack as a sentence.
#pragma once

#include "libtrain/base/dtype.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::io::hdf5 {

// Owns one id of the library and gives it back with the function for its kind.
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

// Stops the library from printing its error stack in this thread.
void be_quiet();
// An access list, of datasets and links, by which links into other files, which nobody examined, lead nowhere.
std::int64_t own_links();
// EnvironmentError for a file being written, InputError for one being read; with the system's reason where it gave one
// (no space, a device that fails), else the innermost description on the error stack of this thread. What the system
// refuses to read is Unreadable (base/system_error.h); bad_alloc where it said nothing and memory is short. Clears the
// stack.
[[noreturn]] void fail(bool writing, const std::string& path, const std::string& what);
// Puts the system's reason on that stack, where fail() finds it; 0 is none.
void push_errno(int number, const char* function);
// Of a question to the library: its answer. Where it has none because the system refuses, as fail() of reading; any
// other failure is a no.
bool is_yes(int answer, const std::string& path, const std::string& what);

Id type_of(base::DType dtype);
// Throws InputError for a type that is none of ours (big-endian, compound, ...).
base::DType dtype_of(std::int64_t type, const std::string& where);
Id space_of(const std::vector<std::int64_t>& shape);

Id property_list(std::int64_t property_class);
Id dataset_id(std::int64_t id);
Id attribute_id(std::int64_t id);
Id group_id(std::int64_t id);
Id object_id(std::int64_t id);
Id type_id(std::int64_t id);
Id space_id(std::int64_t id);

// The library's file driver, which opens nothing for reading that examine() refuses, follows no damaged collections of
// the heap (hdf5_heap.h), and ends where calls are interrupted for ever. `path` may be any file that can be read.
std::int64_t careful_driver(const std::string& path);
// The text of variable length that an attribute of an open file holds. The library checks neither that the heap has the
// object nor that it is as long as the attribute says: so it only gives the reference, and the text is read here.
// InputError.
std::string variable_text(std::int64_t file, std::int64_t attribute, const std::string& path, const std::string& what);

// The group that an object lies in; "" for the root.
std::string group_of(const std::string& name);

}  // namespace trainyard::io::hdf5
