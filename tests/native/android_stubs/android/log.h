#pragma once
#define __android_log_print(...) (void)0
