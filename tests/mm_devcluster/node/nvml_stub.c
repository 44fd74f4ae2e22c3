// What NVIDIA's device plugin and `mm_devcluster.node.gpus` ask of NVML: one H200.
#include <string.h>
typedef struct { unsigned long long total, free, used; } mem;
int nvmlInit_v2(void){return 0;} int nvmlInit(void){return 0;} int nvmlInitWithFlags(unsigned f){return 0;} int nvmlShutdown(void){return 0;}
int nvmlDeviceGetCount_v2(unsigned*n){*n=1;return 0;} int nvmlDeviceGetCount(unsigned*n){*n=1;return 0;}
int nvmlDeviceGetHandleByIndex_v2(unsigned i,void**h){*h=(void*)(1000L+i);return 0;}
int nvmlDeviceGetUUID(void*d,char*b,unsigned n){strcpy(b,"GPU-00000000-0000-0000-0000-000000000001");return 0;}
int nvmlDeviceGetName(void*d,char*b,unsigned n){strcpy(b,"NVIDIA H200");return 0;}
int nvmlDeviceGetMinorNumber(void*d,unsigned*n){*n=0;return 0;} int nvmlDeviceGetIndex(void*d,unsigned*n){*n=0;return 0;}
int nvmlDeviceGetMigMode(void*d,unsigned*a,unsigned*b){*a=*b=0;return 0;} int nvmlDeviceGetMaxMigDeviceCount(void*d,unsigned*n){*n=0;return 0;}
int nvmlDeviceGetMemoryInfo(void*d,mem*m){m->total=143771ULL<<20;m->free=m->total;m->used=0;return 0;}
int nvmlDeviceGetCudaComputeCapability(void*d,int*a,int*b){*a=9;*b=0;return 0;} int nvmlDeviceGetBrand(void*d,unsigned*b){*b=0;return 0;} int nvmlDeviceGetArchitecture(void*d,unsigned*b){*b=9;return 0;}
int nvmlDeviceGetPciInfo_v3(void*d,char*p){memset(p,0,68);strcpy(p+36,"00000000:00:04.0");return 0;} int nvmlDeviceGetPciInfo(void*d,char*p){return nvmlDeviceGetPciInfo_v3(d,p);}
int nvmlSystemGetDriverVersion(char*b,unsigned n){strcpy(b,"580.159.04");return 0;} int nvmlSystemGetCudaDriverVersion(int*v){*v=13000;return 0;} int nvmlSystemGetCudaDriverVersion_v2(int*v){*v=13000;return 0;}
const char*nvmlErrorString(int e){return "stub";}
int nvmlEventSetCreate(void**s){return 3;} int nvmlEventSetFree(void*s){return 0;} int nvmlEventSetWait_v2(void*s,void*d,unsigned t){return 3;} int nvmlDeviceGetSupportedEventTypes(void*d,unsigned long long*t){*t=0;return 0;} int nvmlDeviceRegisterEvents(void*d,unsigned long long t,void*s){return 3;}
