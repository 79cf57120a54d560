// An S3 server on loopback, in memory, with the bucket `lake`; it prints its address and serves
// until its standard input ends. Whoever names another access key than CLIENT_ACCESS_KEY is refused.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

const refusal = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>InvalidAccessKeyId</Code>` +
	`<Message>The access key is not known.</Message></Error>`

func main() {
	backend := s3mem.New()
	if err := backend.CreateBucket("lake"); err != nil {
		panic(err)
	}
	server := gofakes3.New(backend).Server()
	credential := "Credential=" + os.Getenv("CLIENT_ACCESS_KEY") + "/"
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), credential) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, refusal)
			return
		}
		server.ServeHTTP(w, r)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	panic(http.Serve(listener, handler))
}
