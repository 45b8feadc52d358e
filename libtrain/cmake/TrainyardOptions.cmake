# Build options and the compiler flags that every target shares.
option(TRAINYARD_TESTS "build the tests" ON)
option(TRAINYARD_BENCH "build the benchmarks" OFF)
# For a build from nothing: a third of the time. A changed source is compiled with its neighbours, so developers leave it off (preset dev).
option(TRAINYARD_JOINED "compile the sources of a package in groups, as one source each" OFF)
# For a build from nothing, too. Off where ccache is, which knows a source with such headers only with settings of its own.
set(test_headers ${TRAINYARD_JOINED})
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
  set(test_headers OFF)
endif()
option(TRAINYARD_TEST_HEADERS "read the headers of libraries once for all tests" ${test_headers})
option(TRAINYARD_FAST_COMPILE "compile in less time: packages without long loops to slower code, in more memory" OFF)
option(TRAINYARD_WERROR "warnings are errors" OFF)
set(TRAINYARD_SANITIZE "" CACHE STRING "sanitizers, for example address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)   # libraries in a home folder or a module are found without LD_LIBRARY_PATH
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

add_library(trainyard_flags INTERFACE)
target_compile_features(trainyard_flags INTERFACE cxx_std_20)
# nvcc has flags of its own (TrainyardGpu.cmake).
target_compile_options(trainyard_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:$<BUILD_INTERFACE:-Wall>> $<$<COMPILE_LANGUAGE:CXX>:$<BUILD_INTERFACE:-Wextra>>
  $<$<COMPILE_LANGUAGE:CXX>:$<BUILD_INTERFACE:-Wno-unused-parameter>> $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off> $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno>)
# __FILE__ in the messages of internal checks begins at the root of the sources, wherever they were built.
target_compile_options(trainyard_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:$<BUILD_INTERFACE:-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=>>)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)   # g++ makes the fast code; clang is there for its sanitizer, and need not vectorise what g++ does
  target_compile_options(trainyard_flags INTERFACE $<BUILD_INTERFACE:-Wno-pass-failed>)
endif()
if(TRAINYARD_FAST_COMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)   # gcc looks for garbage from 1 GiB of memory on, in place of 128 MiB
  target_compile_options(trainyard_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:$<BUILD_INTERFACE:--param=ggc-min-heapsize=1048576>>)
endif()
if(TRAINYARD_WERROR)
  target_compile_options(trainyard_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:$<BUILD_INTERFACE:-Werror>>)
endif()
if(TRAINYARD_SANITIZE)
  target_compile_options(trainyard_flags INTERFACE -fsanitize=${TRAINYARD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_link_options(trainyard_flags INTERFACE -fsanitize=${TRAINYARD_SANITIZE})
endif()
target_include_directories(trainyard_flags INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:include/trainyard>)
