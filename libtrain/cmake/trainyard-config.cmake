# The CMake package: find_package(trainyard) in a project of the languages C and CXX; then link trainyard::engine, trainyard::data, ...
if(NOT CMAKE_C_COMPILER_LOADED OR NOT CMAKE_CXX_COMPILER_LOADED)
  set(trainyard_FOUND FALSE)
  set(trainyard_NOT_FOUND_MESSAGE "trainyard needs the languages C and CXX: project(NAME LANGUAGES C CXX)")
  return()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/TrainyardDependencies.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/trainyard-targets.cmake)
