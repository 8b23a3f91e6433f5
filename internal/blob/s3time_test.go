package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
)

// TestS3ComparesWithinTheTimeOfTheSize checks that the time limit for reading an object, if the server
// returns no checksum to compare, depends on the size of the object.
func TestS3ComparesWithinTheTimeOfTheSize(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("a"), 30*slowest)
	s := &S3{bucket: "bucket"}
	s.core.StatObject = func(context.Context, string, string, minio.StatObjectOptions) (minio.ObjectInfo, error) {
		return minio.ObjectInfo{Size: int64(len(content))}, nil
	}
	s.core.GetObject = func(ctx context.Context, _, _ string, _ minio.GetObjectOptions) (io.ReadCloser, minio.ObjectInfo, http.Header, error) {
		if end, ok := ctx.Deadline(); !ok || time.Until(end) < requestTime+20*time.Second {
			t.Errorf("the request ends at %s (%t), want a limit of about 30 s more than %s", end, ok, requestTime)
		}
		return io.NopCloser(bytes.NewReader(content)), minio.ObjectInfo{}, nil, nil
	}
	sum := sha256.Sum256(content)
	if same, err := s.stored(t.Context(), "a/1", int64(len(content)), base64.StdEncoding.EncodeToString(sum[:])); err != nil || !same {
		t.Errorf("stored = %t, %v, want true", same, err)
	}
}
