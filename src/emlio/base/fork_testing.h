// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#if defined(__has_feature)
#define EMLIO_HAS_THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#define EMLIO_HAS_THREAD_SANITIZER 0
#endif

// First in a test in whose child of fork objects with threads are destroyed. The thread sanitizer
// knows nothing of the parent's threads there, and ends the process.
#if defined(__SANITIZE_THREAD__) || EMLIO_HAS_THREAD_SANITIZER
#define EMLIO_SKIP_WHERE_FORKS_FORGET_THREADS() \
  GTEST_SKIP() << "the thread sanitizer knows nothing of the parent's threads in a child"
#else
#define EMLIO_SKIP_WHERE_FORKS_FORGET_THREADS() static_cast<void>(0)
#endif
