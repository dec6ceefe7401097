// Any processor: 16-byte vectors, which x86-64 and AArch64 always have.
#define INSTRUCTION_SET baseline
#define LANE_BYTES 16
#include "kernels.h"
