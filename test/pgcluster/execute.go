package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Exit codes as a shell returns them.
const (
	exitNotFound = 127 // the command could not be started
	exitSignal   = 128 // added to the number of the signal that ended the command
)

// execute runs the command with the standard streams of this process and the given environment,
// forwards signals to the command, and returns the command's exit code. Even if a signal arrives,
// execute returns only after the command has exited. If the command cannot be started, execute
// returns exitNotFound.
func execute(command, env []string, stderr io.Writer) int {
	signals := make(chan os.Signal, len(forwarded))
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)

	//nolint:gosec // running the given command is the purpose of this program
	cmd := exec.CommandContext(context.Background(), command[0], command[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(stderr, "pgcluster:", err)
		return exitNotFound
	}

	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			// The command may have exited already.
			if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
				fmt.Fprintf(stderr, "pgcluster: forwarding the signal %v: %v\n", sig, err)
			}
		case err := <-ended:
			return exitCode(cmd.ProcessState, err, stderr)
		}
	}
}

// exitCode returns the exit code that a shell would return for the command. If err is not an exit
// status, exitCode prints err and returns exitFailed.
func exitCode(state *os.ProcessState, err error, stderr io.Writer) int {
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		fmt.Fprintln(stderr, "pgcluster:", err)
		return exitFailed
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return state.ExitCode()
}
