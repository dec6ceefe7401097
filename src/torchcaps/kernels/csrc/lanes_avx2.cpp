// x86 processors with AVX2 and FMA.
#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#define INSTRUCTION_SET avx2
#define LANE_BYTES 32
#include "kernels.h"
#endif
