/*
 * dlfcn: the loader by which cuda_dnn.cu looks for cuDNN, for the stand-in (tests/fake_cuda.h):
 * fake_cuda_dnn.cc's functions, under names that leave the real loader to everybody else.
 */
#ifndef TESTS_FAKE_DLFCN_H
#define TESTS_FAKE_DLFCN_H

#ifdef __cplusplus
extern "C" {
#endif

enum { RTLD_LOCAL = 0, RTLD_NOW = 2, RTLD_NODELETE = 0x1000 };

#define dlopen  fake_dlopen
#define dlsym   fake_dlsym
#define dlclose fake_dlclose
#define dlerror fake_dlerror

void *dlopen(const char *name, int flags);
void *dlsym(void *library, const char *symbol);
int dlclose(void *library);
char *dlerror(void);

#ifdef __cplusplus
}
#endif
#endif
