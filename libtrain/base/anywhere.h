// TRAINYARD_ANYWHERE: a function that the host and a GPU run alike.
#pragma once

#ifdef __CUDACC__
#define TRAINYARD_ANYWHERE __host__ __device__
#else
#define TRAINYARD_ANYWHERE
#endif
