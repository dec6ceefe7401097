// x86 processors with AVX-512.
#if defined(__x86_64__)
#pragma GCC target("avx2,fma,avx512f,avx512dq,avx512bw,avx512vl")
#define INSTRUCTION_SET avx512
#define LANE_BYTES 64
#include "kernels.h"
#endif
