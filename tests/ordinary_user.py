"""Running a command without the rights of root, which CI has and users don't."""

# Root may write to read-only files. Without these capabilities it may not, and still owns and reads everything.
AS_ORDINARY_USER = """
import ctypes, os, sys
if hasattr(os, "geteuid") and os.geteuid() == 0:
    libc = ctypes.CDLL(None, use_errno=True)
    PR_CAPBSET_DROP, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER = 24, 1, 2, 3
    for capability in (DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
            sys.exit(f"can't give up the rights of root: {os.strerror(ctypes.get_errno())}")
os.execv(sys.argv[1], sys.argv[1:])
"""
