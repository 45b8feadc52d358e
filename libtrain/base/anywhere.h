// TRAINYARD_ANYWHERE: marks a function that both the host and a GPU can run.
#pragma once

#ifdef __CUDACC__
#define TRAINYARD_ANYWHERE __host__ __device__
#else
#define TRAINYARD_ANYWHERE
#endif
