"""Controls a headless Chromium by WebDriver over loopback HTTP. Uses only the standard library."""

import http.client
import json
import os
import re
import subprocess

from suite import HANG, until


class Browser:
    """One session; pages save files in `downloads`."""

    def __init__(self, downloads):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       text=True)
        self.session = None
        try:
            for line in self.driver.stdout:
                if found := re.search(r"started successfully on port (\d+)", line):
                    break
            else:
                raise RuntimeError("chromedriver did not start")
            self.port = int(found.group(1))
            arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--force-device-scale-factor=1"]
            if os.geteuid() == 0:
                arguments.append("--no-sandbox")
            wanted = {"browserName": "chrome",
                      "goog:loggingPrefs": {"browser": "ALL"},
                      "goog:chromeOptions": {"args": arguments,
                                             "prefs": {"download.default_directory": downloads,
                                                       "download.prompt_for_download": False,
                                                       "profile.default_content_setting_values.automatic_downloads": 1}}}
            self.session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        except BaseException:
            self.close()
            raise

    def close(self):
        if self.session:
            try:
                self.call("DELETE", f"/session/{self.session}")
            except Exception:
                pass
        self.driver.terminate()
        self.driver.wait(timeout=HANG)
        self.driver.stdout.close()

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None,
                               {"Content-Type": "application/json"})
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(f"{value['error']}: {value.get('message', '')[:400]}")
        return value

    def post(self, path, body):
        return self.call("POST", f"/session/{self.session}/{path}", body)

    def look(self, width, height, dark):
        """Sets the window size and the color scheme of the next pages."""
        self.post("goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride",
                                       "params": {"width": width, "height": height, "deviceScaleFactor": 1,
                                                  "mobile": width < 600}})
        self.post("goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia",
                                       "params": {"features": [{"name": "prefers-color-scheme",
                                                                "value": "dark" if dark else "light"}]}})

    def open(self, path):
        self.post("url", {"url": "file://" + path})

    def run(self, script, *arguments):
        """Runs `script` and returns its return value."""
        return self.post("execute/sync", {"script": script, "args": list(arguments)})

    def element(self, selector):
        return next(iter(self.post("element", {"using": "css selector", "value": selector}).values()))

    def click(self, selector):
        """Clicks when the element is enabled: a page disables its buttons while it has no connection, and a busy machine may
        interrupt one for a moment."""
        path = f"element/{self.element(selector)}"
        until(lambda: self.call("GET", f"/session/{self.session}/{path}/enabled"), f"{selector} stays disabled")
        self.post(f"{path}/click", {})

    def type(self, selector, keys):
        self.post(f"element/{self.element(selector)}/value", {"text": keys})

    def said(self):
        """Console messages since the last call."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.post("se/log", {"type": "browser"})]

    def picture(self):
        """A screenshot of the whole page, as PNG in base64."""
        return self.post("goog/cdp/execute", {"cmd": "Page.captureScreenshot",
                                              "params": {"format": "png", "captureBeyondViewport": True}})["data"]
