/* Search runs in a worker, which browsers refuse to pages that are opened as files: a hidden frame takes its place. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      this.inner = this.frame.contentWindow;
      const page = this.inner.document;
      page.open();
      this.inner.answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = new Promise((resolve) => { this.inner.loaded = resolve; });
      page.write("<script>self.postMessage = (data) => answer(data)</" + "script>");
      page.write(`<script src="${url}" onload="loaded()"></` + "script>");
      page.close();
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
