package blobtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// startTime is the maximum time that a server needs to start.
const startTime = 30 * time.Second

// Server is an S3 server that runs in its own process.
type Server struct {
	Name string
	// variable is the environment variable with the path of the program.
	variable string
	command  func(program, address, dir string) *exec.Cmd
}

// Servers returns the S3 servers of the tests. `make test/s3` builds the programs that its variable S3
// names, and sets their environment variables.
func Servers() []Server {
	return []Server{
		{"versitygw", "CERTVAULT_VERSITYGW", func(program, address, dir string) *exec.Cmd {
			cmd := exec.Command(program, "--port", address, "--quiet", "--keep-alive", "posix", dir) //nolint:noctx // the test ends it
			cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
			return cmd
		}},
		{"minio", "CERTVAULT_MINIO", func(program, address, dir string) *exec.Cmd {
			cmd := exec.Command(program, "server", "--quiet", "--address", address, dir) //nolint:noctx // the test ends it
			cmd.Env = append(os.Environ(), "MINIO_ROOT_USER="+accessKey, "MINIO_ROOT_PASSWORD="+secretKey, "MINIO_BROWSER=off", "MINIO_UPDATE=off")
			return cmd
		}},
	}
}

// Process is a running server.
type Process struct {
	*S3

	tb      testing.TB
	server  Server
	address string
	dir     string
	cmd     *exec.Cmd
	output  strings.Builder
}

// Start starts the server with an empty bucket, and stops it when the test ends. It skips the test if
// the environment variable of the program is not set.
func (s Server) Start(tb testing.TB) *Process {
	tb.Helper()
	program := os.Getenv(s.variable)
	if program == "" {
		tb.Skipf("%[1]s is not set to the path of the program %[2]s; run make test/s3 S3=%[2]s", s.variable, s.Name)
	}
	if err := setCredentials(); err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // only the number of the port is needed
	if err != nil {
		tb.Fatal(err)
	}
	p := &Process{tb: tb, server: s, address: listener.Addr().String(), dir: tb.TempDir()}
	p.S3 = &S3{Endpoint: "http://" + p.address}
	if err := listener.Close(); err != nil {
		tb.Fatal(err)
	}
	p.Continue()
	tb.Cleanup(p.Stop)
	return p
}

// Continue starts the server again after Stop, with the same files.
func (p *Process) Continue() {
	p.tb.Helper()
	p.cmd = p.server.command(os.Getenv(p.server.variable), p.address, p.dir)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		p.tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	if err := p.makeBucket(ctx); err != nil {
		p.Stop()
		p.tb.Fatalf("starting %s: %v: %s", p.server.Name, err, &p.output)
	}
}

// makeBucket waits until the server works, and creates the bucket if needed.
func (p *Process) makeBucket(ctx context.Context) error {
	client, err := minio.New(p.address, &minio.Options{Creds: credentials.NewStaticV4(accessKey, secretKey, ""), Region: "us-east-1", MaxRetries: 1})
	if err != nil {
		return err
	}
	for {
		exists, err := client.BucketExists(ctx, bucket)
		if err == nil && !exists {
			err = client.MakeBucket(ctx, bucket, minio.MakeBucketOptions{Region: "us-east-1"})
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server does not respond: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop kills the server without a regular shutdown.
func (p *Process) Stop() {
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	_ = p.cmd.Wait() // it returns an error, because the server was killed
}
