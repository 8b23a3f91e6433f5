package app

import (
	"bufio"
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// releaseCode removes the pages of the binary that are only read from the memory of the process. They
// remain in the page cache of the system, from which the next use of a page gets it back in less than a
// microsecond. Most pages are used only during the start, or come with their neighbours, and the system
// removes them by itself only when it lacks memory.
func releaseCode() error {
	binary, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(maps))
	for lines.Scan() {
		var start, end, offset, inode uint64
		var permissions, device, name string
		// A line without a name is a mapping without a file (proc_pid_maps(5)). A path that has spaces is not
		// equal to the binary, whose pages then stay.
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %d %s", &start, &end, &permissions, &offset, &device, &inode, &name); n < 7 {
			continue
		}
		// A page that the process may write can differ from the file.
		if name != binary || permissions[1] == 'w' {
			continue
		}
		// The pages are not those of a slice, so that unix.Madvise does not fit.
		if _, _, code := unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED); code != 0 {
			return fmt.Errorf("releasing pages of the binary: %w", code)
		}
	}
	return lines.Err()
}
