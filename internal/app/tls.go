package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	selfSignedLifetime = 397 * 24 * time.Hour
	// selfSignedRenewal is the remaining lifetime below which a self-signed certificate is renewed.
	selfSignedRenewal = 30 * 24 * time.Hour
)

// ownCertificateFile is the name of the file with the self-signed certificate.
const ownCertificateFile = "cert.pem"

// selfSignedCertificate returns a self-signed TLS certificate for localhost and the host. It stores the
// certificate in dir, so that clients do not have to trust a new certificate after each restart. It
// creates a new certificate if the stored certificate is missing, expires in less than
// selfSignedRenewal or is for another host.
func selfSignedCertificate(dir, host string, now time.Time) (tls.Certificate, error) {
	certFile, keyFile := filepath.Join(dir, ownCertificateFile), filepath.Join(dir, "key.pem")
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err == nil && pair.Leaf.VerifyHostname(host) == nil && now.Before(pair.Leaf.NotAfter.Add(-selfSignedRenewal)) {
		return pair, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tls.Certificate{}, fmt.Errorf("reading the self-signed certificate (to create a new one, remove %s): %w", dir, err)
	}
	if err := createCertificate(dir, certFile, keyFile, host, now); err != nil {
		return tls.Certificate{}, fmt.Errorf("creating a TLS certificate: %w", err)
	}
	if pair, err = tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		return tls.Certificate{}, fmt.Errorf("reading the new TLS certificate: %w", err)
	}
	return pair, nil
}

func createCertificate(dir, certFile, keyFile, host string, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: host, Organization: []string{"Certvault, self-signed"}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(selfSignedLifetime), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = append(template.IPAddresses, ip)
	} else if host != "localhost" {
		template.DNSNames = append(template.DNSNames, host)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := replaceFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})); err != nil {
		return err
	}
	return replaceFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// replaceFile writes a file so that a reader finds either the old or the new content.
func replaceFile(name string, content []byte) error {
	if err := os.WriteFile(name+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
