package blob

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/lifecycle"

	"github.com/certvault/certvault/internal/trace"
)

const (
	// requestTime is the maximum time of a request, not including the time to transfer its content.
	requestTime = 20 * time.Second
	// slowest is the minimum speed of a transfer in bytes per second.
	slowest = 1 << 20
	// connectTime limits connecting to the store, and to the service that returns the credentials of a
	// role.
	connectTime = 5 * time.Second
	// attempts is the maximum number of attempts of a request that fails with temporary errors.
	attempts = 4
	// maxIdle is the maximum number of idle connections.
	maxIdle = 64
)

// S3Options are the settings of a store in S3.
type S3Options struct {
	// Scratch is a folder for files in transit. It may be deleted at any time.
	Scratch string
	// Cache is the maximum size in bytes of the copies of files that were read, or 0 for no copies. Only
	// one process may use a cache in the folder Scratch.
	Cache int64
	// Observe is called after each request, with the time until the header of the response arrived. It
	// may be nil.
	Observe func(operation string, took time.Duration, failed bool)
}

// s3Requests has the methods of the client that a store uses. Templates look up methods by
// name, so the linker keeps all exported methods of values that are stored in interfaces. If S3
// contained the client itself, all methods of the client would add 1.3 MB to the program.
type s3Requests struct {
	PutObject             func(ctx context.Context, bucket, object string, data io.Reader, size int64, md5, sha256 string, opts minio.PutObjectOptions) (minio.UploadInfo, error)
	StatObject            func(ctx context.Context, bucket, object string, opts minio.StatObjectOptions) (minio.ObjectInfo, error)
	GetObject             func(ctx context.Context, bucket, object string, opts minio.GetObjectOptions) (io.ReadCloser, minio.ObjectInfo, http.Header, error)
	RemoveObject          func(ctx context.Context, bucket, object string, opts minio.RemoveObjectOptions) error
	ListObjectsIter       func(ctx context.Context, bucket string, opts minio.ListObjectsOptions) iter.Seq[minio.ObjectInfo]
	EndpointURL           func() *url.URL
	GetBucketLifecycle    func(ctx context.Context, bucket string) (*lifecycle.Configuration, error)
	ListIncompleteUploads func(ctx context.Context, bucket, prefix string, recursive bool) <-chan minio.ObjectMultipartInfo
}

// client returns the methods of a new client for the location.
func (l *s3Location) client(observe func(string, time.Duration, bool)) (s3Requests, error) {
	found := credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: &http.Client{Timeout: connectTime}},
	})
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: connectTime}).DialContext, TLSHandshakeTimeout: connectTime,
		TLSClientConfig: &tls.Config{RootCAs: l.authorities, MinVersion: tls.VersionTLS12}, ResponseHeaderTimeout: requestTime,
		MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: time.Minute, DisableCompression: true,
	}
	client, err := minio.New(l.endpoint.Host, &minio.Options{
		Creds: found, Secure: l.endpoint.Scheme == "https", Region: l.region, BucketLookup: l.lookup, MaxRetries: attempts,
		Transport: &observedTransport{next: transport, observe: observe},
	})
	if err != nil {
		return s3Requests{}, fmt.Errorf("%w: %w", ErrLocation, err)
	}
	value, err := client.GetCreds()
	if err != nil {
		return s3Requests{}, fmt.Errorf("reading the credentials for S3: %w", err)
	}
	if value.AccessKeyID == "" {
		return s3Requests{}, errNoCredentials
	}
	c := minio.Core{Client: client}
	return s3Requests{
		PutObject: c.PutObject, StatObject: c.StatObject, GetObject: c.GetObject, RemoveObject: c.RemoveObject, ListObjectsIter: c.ListObjectsIter,
		EndpointURL: c.EndpointURL, GetBucketLifecycle: c.GetBucketLifecycle, ListIncompleteUploads: c.ListIncompleteUploads,
	}, nil
}

// transferTime returns a context that ends after the time limit for a request with size bytes of
// content.
func transferTime(ctx context.Context, size int64) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, transferLimit(size))
}

func transferLimit(size int64) time.Duration {
	return requestTime + time.Duration(size/slowest)*time.Second
}

// errNoS3 means that the response with status 404 did not come from an S3 server, but for example from a
// proxy.
var errNoS3 = errors.New("the response with status 404 did not come from an S3 server")

// observedTransport calls observe for each request. It returns errNoS3 for a response with status 404
// that is not from an S3 server.
type observedTransport struct {
	next    http.RoundTripper
	observe func(operation string, took time.Duration, failed bool)
}

// RoundTrip implements [http.RoundTripper].
func (t *observedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	ctx, span := trace.Start(r.Context(), trace.Client, "s3 "+operation(r))
	if span.On() {
		// The signature of the request does not include the trace header, as S3 permits.
		r = r.Clone(ctx)
		trace.Inject(ctx, r.Header)
	}
	response, err := t.next.RoundTrip(r)
	failed := err != nil || response.StatusCode >= http.StatusBadRequest && response.StatusCode != http.StatusNotFound && response.StatusCode != http.StatusPreconditionFailed
	if err == nil {
		span.Int("http.response.status_code", response.StatusCode)
	}
	span.End(failed)
	if t.observe != nil {
		t.observe(operation(r), time.Since(began), failed)
	}
	// A missing file is a permanent error for a certificate. Therefore, accept a 404 only from an S3
	// server, whose errors are XML.
	if err == nil && r.Method != http.MethodHead && response.StatusCode == http.StatusNotFound && !strings.Contains(response.Header.Get("Content-Type"), "xml") {
		return nil, errors.Join(errNoS3, response.Body.Close())
	}
	return response, err
}

// operation returns the name of a request for metrics and traces.
func operation(r *http.Request) string {
	if r.Method == http.MethodGet && r.URL.Query().Has("list-type") {
		return "list"
	}
	return strings.ToLower(r.Method)
}
