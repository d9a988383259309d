package backups

import (
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // services check it to find out whether a body is complete
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"stepboard/config"
	"stepboard/internal/outbound"
)

// partSize is the size of the parts of large objects, in bytes. Smaller objects are one request.
const partSize = 64 << 20

// listTimeout bounds a list: a million objects are a thousand requests.
const listTimeout = 5 * time.Minute

var errListNeverEnds = errors.New("the list has not come to an end within five minutes: is it a service for objects?")

// bucket is a bucket of an S3 service.
type bucket struct {
	core   minio.Core
	name   string
	prefix string // empty, or ends with a slash
	// unconditional is set when the service has refused a condition as unknown.
	unconditional atomic.Bool
}

func openS3(o config.Backup, name, prefix string) (Target, error) {
	if err := s3utils.CheckValidBucketNameStrict(name); err != nil {
		return nil, fmt.Errorf("%s names no bucket: %w", o.To, err)
	}
	host, secure, err := endpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	if (o.AccessKey == "") != (o.SecretKey == "") {
		return nil, errors.New("backup.access_key and backup.secret_key must be set together")
	}
	transport := outbound.NewTransport(outbound.Options{Idle: 4}) // minio follows no redirect
	transport.ResponseHeaderTimeout, transport.ForceAttemptHTTP2 = time.Minute, false
	keys := credentials.NewStaticV4(o.AccessKey, o.SecretKey, "")
	if o.AccessKey == "" {
		keys = credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		})
	}
	client, err := minio.New(host, &minio.Options{
		Creds: keys, Secure: secure, Transport: transport,
		Region:     cmp.Or(o.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
		MaxRetries: 1, // who calls repeats, and knows for how long
	})
	if err != nil {
		return nil, fmt.Errorf("backup.endpoint: %w", err)
	}
	if prefix != "" {
		prefix += "/"
	}
	return &bucket{core: minio.Core{Client: client}, name: name, prefix: prefix}, nil
}

// endpoint returns the host and port of a service, and whether it is reached by TLS.
func endpoint(address string) (host string, secure bool, err error) {
	if address == "" {
		return "s3.amazonaws.com", true, nil
	}
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", false, errors.New("backup.endpoint must be the address of a service, as in https://s3.example.com, without keys and path")
	}
	return u.Host, u.Scheme == "https", nil
}

// Create implements Target. It asks first whether the object exists: that saves to send it, and is all
// that services without conditions can do. Those let two writers at the same moment both succeed.
func (b *bucket) Create(ctx context.Context, name string, from io.ReadSeeker, size int64) error {
	exists, err := b.exists(ctx, name)
	switch {
	case err != nil:
		return failed("write", name, err)
	case exists:
		return ErrExists
	}
	// The services check that a body has the sum that is sent with it, or which is signed.
	opts := minio.PutObjectOptions{DisableContentSha256: true}
	if !b.unconditional.Load() {
		opts.SetMatchETagExcept("*")
	}
	err = b.put(ctx, name, from, size, opts)
	answer := minio.ToErrorResponse(err)
	switch {
	case err == nil:
		return nil
	case (answer.StatusCode == http.StatusNotImplemented || answer.Code == minio.NotImplemented) && !b.unconditional.Swap(true):
		return b.Create(ctx, name, from, size)
	case answer.StatusCode == http.StatusPreconditionFailed || answer.Code == minio.PreconditionFailed:
		return ErrExists
	case answer.StatusCode == http.StatusConflict:
		// Another request for the name is on its way. It may also be one that deletes.
		if exists, again := b.exists(ctx, name); again == nil && exists {
			return ErrExists
		}
	}
	return failed("write", name, err)
}

func (b *bucket) exists(ctx context.Context, name string) (bool, error) {
	_, err := b.core.StatObject(ctx, b.name, b.prefix+name, minio.StatObjectOptions{})
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return false, nil
	}
	return err == nil, err
}

func (b *bucket) put(ctx context.Context, name string, from io.ReadSeeker, size int64, opts minio.PutObjectOptions) error {
	key := b.prefix + name
	if size <= partSize {
		body, md5Sum, shaSum, err := section(from, 0, size)
		if err == nil {
			_, err = b.core.PutObject(ctx, b.name, key, body, size, md5Sum, shaSum, opts)
		}
		return err
	}
	id, err := b.core.NewMultipartUpload(ctx, b.name, key, minio.PutObjectOptions{})
	if err != nil {
		return err
	}
	parts, err := b.putParts(ctx, key, id, from, size)
	if err == nil {
		_, err = b.core.CompleteMultipartUpload(ctx, b.name, key, id, parts, opts)
	}
	if err != nil { // parts without an object would be kept, and paid for
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = b.core.AbortMultipartUpload(ctx, b.name, key, id) // err says more
	}
	return err
}

func (b *bucket) putParts(ctx context.Context, key, id string, from io.ReadSeeker, size int64) (parts []minio.CompletePart, err error) {
	for at := int64(0); at < size; at += partSize {
		n := min(partSize, size-at)
		body, md5Sum, shaSum, err := section(from, at, n)
		if err != nil {
			return nil, err
		}
		part, err := b.core.PutObjectPart(ctx, b.name, key, id, len(parts)+1, body, n,
			minio.PutObjectPartOptions{Md5Base64: md5Sum, Sha256Hex: shaSum, DisableContentSha256: true})
		if err != nil {
			return nil, err
		}
		parts = append(parts, minio.CompletePart{PartNumber: part.PartNumber, ETag: part.ETag})
	}
	return parts, nil
}

// section returns a reader of a part of an object, and its sums as requests have them.
func section(from io.ReadSeeker, at, size int64) (body io.Reader, md5Sum, shaSum string, err error) {
	md5Hash, shaHash := md5.New(), sha256.New() //nolint:gosec // as above
	if _, err = from.Seek(at, io.SeekStart); err == nil {
		_, err = io.CopyN(io.MultiWriter(md5Hash, shaHash), from, size)
	}
	if err == nil {
		_, err = from.Seek(at, io.SeekStart)
	}
	return io.LimitReader(from, size), base64.StdEncoding.EncodeToString(md5Hash.Sum(nil)), hex.EncodeToString(shaHash.Sum(nil)), err
}

// Read implements Target.
func (b *bucket) Read(ctx context.Context, name string) (io.ReadCloser, error) {
	body, _, _, err := b.core.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, failed("read", name, err)
	}
	return body, nil
}

// Local implements Target.
func (b *bucket) Local() bool { return false }

// List implements Target. It gives up after listTimeout.
func (b *bucket) List(ctx context.Context, prefix string) (list []Object, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errListNeverEnds)
	defer cancel()
	for o := range b.core.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, failed("list", prefix, errors.Join(o.Err, context.Cause(ctx)))
		}
		list = append(list, Object{Name: strings.TrimPrefix(o.Key, b.prefix), Size: o.Size})
	}
	slices.SortFunc(list, byName) // some services have another order
	return list, context.Cause(ctx)
}

// Delete implements Target.
func (b *bucket) Delete(ctx context.Context, names ...string) error {
	results, err := b.core.RemoveObjectsWithIter(ctx, b.name, func(yield func(minio.ObjectInfo) bool) {
		for _, name := range names {
			if !yield(minio.ObjectInfo{Key: b.prefix + name}) {
				return
			}
		}
	}, minio.RemoveObjectsOptions{})
	if err != nil {
		return failed("delete", b.name, err)
	}
	refused := 0
	for result := range results {
		if result.Err != nil && minio.ToErrorResponse(result.Err).Code != minio.NoSuchKey {
			refused++
			err = result.Err
		}
	}
	if err != nil {
		return fmt.Errorf("delete %d of %d objects: %w", refused, len(names), err)
	}
	return ctx.Err()
}

func failed(what, name string, err error) error { return fmt.Errorf("%s %s: %w", what, name, err) }

func byName(a, b Object) int { return strings.Compare(a.Name, b.Name) }
