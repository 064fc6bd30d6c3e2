package replica_test

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/replica"
)

// withToken serves only clients that send a token.
func withToken(token string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+token)) != 1 {
			http.Error(w, "the token is wrong", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// A server with TLS that serves only clients with a token, and a replica that trusts its certificate.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err == nil {
		defer os.RemoveAll(dir)
		err = publish(filepath.Join(dir, "users.mmf"), filepath.Join(dir, "replica.mmf"))
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// true
	// false
	// true
}

func publish(path, copied string) error {
	f, err := mmapfilter.OpenOrCreate(path, &mmapfilter.Options{Capacity: 100_000, AutoGrow: true}, nil)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := errors.Join(f.Insert([]byte("alice")), f.Sync()); err != nil {
		return err
	}
	// In a program of its own: http.ListenAndServeTLS(":8443", "cert.pem", "key.pem", handler)
	server := httptest.NewTLSServer(withToken("secret", replica.Handler(f)))
	defer server.Close()
	return ask(server.URL, server.Certificate(), copied)
}

func ask(url string, certificate *x509.Certificate, path string) error {
	own := x509.NewCertPool()
	own.AddCert(certificate)
	o := &replica.Options{
		Client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: own}}},
		Header: http.Header{"Authorization": {"Bearer secret"}},
	}
	r, err := replica.Follow(context.Background(), url, path, o)
	if err != nil {
		return err
	}
	defer r.Close()
	fmt.Println(r.ContainsString("alice"))
	fmt.Println(r.ContainsString("carol"))
	_, err = replica.Follow(context.Background(), url, path+".other", &replica.Options{Client: o.Client}) // without the token
	fmt.Println(errors.Is(err, os.ErrPermission))
	return nil
}
