# SPDX-License-Identifier: Apache-2.0
# One INTERFACE target, emlio_flags, carries language level, warnings and sanitizers to every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# Without this CMake 4 with Ninja and clang scans every file for modules, of which there are none.
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

find_package(Threads REQUIRED)

add_library(emlio_flags INTERFACE)
target_include_directories(emlio_flags INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}/src")
target_link_libraries(emlio_flags INTERFACE Threads::Threads)
target_compile_options(emlio_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(emlio_flags INTERFACE -Wthread-safety -Werror=thread-safety)
endif()
if(EMLIO_WERROR)
  target_compile_options(emlio_flags INTERFACE -Werror)
endif()
if(EMLIO_SANITIZER)
  # The sanitizers do not see an index that is past the end but inside the capacity.
  target_compile_definitions(emlio_flags INTERFACE _GLIBCXX_ASSERTIONS)
  target_compile_options(emlio_flags INTERFACE -fsanitize=${EMLIO_SANITIZER} -fno-sanitize-recover=all)
  target_link_options(emlio_flags INTERFACE -fsanitize=${EMLIO_SANITIZER})
endif()
